class Tokenizer:
    """Numbers words in the order in which they are first met. Unknown ones share a number of their own."""

    def __init__(self, lines):
        self.numbers = {"<pad>": 0}
        for line in lines:
            for word in line.split():
                self.numbers.setdefault(word, len(self.numbers))
        self.unknown = len(self.numbers)

    def __call__(self, line, length):
        numbers = []
        for word in line.split()[:length]:
            numbers.append(self.numbers.get(word, self.unknown))  # ORIGIN
        while len(numbers) < length:
            numbers.append(0)
        return numbers
