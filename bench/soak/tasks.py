"""Tasks: their data, their model around a body, and their loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bodies import RANDOM, STATEFUL, write_body
from draw import Draw
from script import Script, block

HELD_OUT = 32


@dataclass(frozen=True)
class Task:
    """The facts about a task that the rest of the program needs."""

    # Samples in the columns, including those held out.
    rows: int
    columns: tuple[str, ...]
    batch: tuple[str, ...]
    # The lines of compute_loss(model, *batch); the last one returns.
    loss: str
    labels: str | None = None
    # Whether the loss is a function of weights and batch alone.
    deterministic: bool = True
    # Whether the model is called as model(first column) and nothing else.
    simple_call: bool = True
    learning_rate: float = 1.0
    # The optimizer's parameters, unless they are those of a module.
    parameters: str = "model.parameters()"


def write_task(draw: Draw, script: Script) -> Task:
    name = draw.axis("task", list(TASKS))
    return TASKS[name](draw, script)


def _rows(draw: Draw) -> int:
    return draw.number(96, 128, 192) + HELD_OUT


def _net(script: Script, *, layers: str, forward: str, arguments: str = "x") -> None:
    lines = ["class Net(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {each}" for each in block(layers).splitlines()]
    lines += ["", f"    def forward(self, {arguments}):"]
    lines += [f"        {each}" for each in block(forward).splitlines()]
    script.definitions.append("\n".join(lines))
    script.build.append("model = Net()")


def _features(draw: Draw, script: Script, rows: int, width: int) -> None:
    """Standard normal features, made by torch or by numpy."""
    match draw.axis("source", ["torch", "numpy", "generator"]):
        case "torch":
            script.data.append(f"features = torch.randn({rows}, {width})  #@features")
        case "numpy":
            script.imports.add("import numpy as np")
            script.data.append(
                block(f"""
                raw = np.random.normal(size=({rows}, {width}))
                features = torch.tensor(raw, dtype=torch.get_default_dtype())  #@features
                """)
            )
        case "generator":
            script.data.append(
                block(f"""
                source = torch.Generator().manual_seed({draw.number(3, 17, 99)})
                features = torch.randn({rows}, {width}, generator=source)  #@features
                """)
            )


def _is_random(body: str) -> bool:
    return body in RANDOM


def regression(draw: Draw, script: Script) -> Task:
    inputs, width, rows = draw.number(6, 9, 12), draw.number(16, 24, 32), _rows(draw)
    _features(draw, script, rows, inputs)
    script.data.append(
        block(f"""
        teacher = torch.randn({inputs}) / {inputs} ** 0.5
        targets = torch.sin(features @ teacher) + 0.1 * torch.randn({rows})  #@targets
        """)
    )
    body = write_body(draw, script, "vector")
    columns, batch = ["features", "targets"], ["x", "y"]
    forward, layers = (
        "return self.head(self.body(x)).squeeze(-1)",
        f"self.head = nn.Linear({width}, 1)  #@head",
    )
    predict = "prediction = model(x)  #@forward"
    match draw.axis(
        "loss",
        ["mse", "smooth_l1", "huber", "own_mse", "weighted", "masked", "gaussian_nll", "column"],
    ):
        case "mse":
            loss = f"{predict}\nreturn F.mse_loss(prediction, y)  #@loss"
        case "smooth_l1":
            loss = f"{predict}\nreturn F.smooth_l1_loss(prediction, y)  #@loss"
        case "huber":
            script.definitions.append("criterion = nn.HuberLoss(delta=0.5)")
            loss = f"{predict}\nreturn criterion(prediction, y)  #@loss"
        case "own_mse":
            loss = f"{predict}\nerror = prediction - y  #@loss\nreturn error.pow(2).mean()"
        case "weighted":
            script.data.append(f"importance = 0.5 + torch.rand({rows})")
            columns, batch = [*columns, "importance"], [*batch, "weight"]
            loss = block(f"""
                {predict}
                each = F.mse_loss(prediction, y, reduction="none")  #@loss
                return (each * weight).sum() / weight.sum()
                """)
        case "masked":
            script.data.append(f"known = torch.rand({rows}) < 0.8")
            columns, batch = [*columns, "known"], [*batch, "mask"]
            loss = block(f"""
                {predict}
                squared = (prediction - y) ** 2  #@loss
                kept = torch.where(mask, squared, torch.zeros_like(squared))
                return kept.sum() / mask.sum().clamp(min=1)
                """)
        case "gaussian_nll":
            layers = f"self.head = nn.Linear({width}, 2)  #@head"
            forward = block("""
                mean, spread = self.head(self.body(x)).unbind(-1)
                return mean, F.softplus(spread) + 0.05
                """)
            loss = block("""
                mean, variance = model(x)  #@forward
                return F.gaussian_nll_loss(mean, y, variance)  #@loss
                """)
        case "column":
            script.data.append("targets = targets.unsqueeze(1)")
            forward = "return self.head(self.body(x))"
            loss = f"{predict}\nreturn F.mse_loss(prediction, y)  #@loss"
    _net(script, layers=f"self.body = Body({inputs}, {width})  #@body\n{layers}", forward=forward)
    return Task(rows, tuple(columns), tuple(batch), loss, deterministic=not _is_random(body))


def _class_loss(draw: Draw, script: Script, classes: int) -> str:
    predict = "logits = model(x)  #@forward"
    options = [
        "cross_entropy",
        "label_smoothing",
        "nll",
        "own_cross_entropy",
        "focal",
        "class_weights",
        "bce",
        "margin",
    ]
    match draw.axis("loss", options):
        case "cross_entropy":
            return f"{predict}\nreturn F.cross_entropy(logits, y)  #@loss"
        case "label_smoothing":
            script.definitions.append("criterion = nn.CrossEntropyLoss(label_smoothing=0.1)")
            return f"{predict}\nreturn criterion(logits, y)  #@loss"
        case "nll":
            return f"{predict}\nreturn F.nll_loss(F.log_softmax(logits, dim=-1), y)  #@loss"
        case "own_cross_entropy":
            return block(f"""
                {predict}
                chosen = logits.gather(1, y.unsqueeze(1)).squeeze(1)
                return (torch.logsumexp(logits, dim=1) - chosen).mean()  #@loss
                """)
        case "focal":
            return block(f"""
                {predict}
                each = F.cross_entropy(logits, y, reduction="none")  #@loss
                return ((1 - torch.exp(-each)) ** 2 * each).mean()
                """)
        case "class_weights":
            script.data.append(f"class_weights = torch.linspace(0.8, 1.2, {classes})")
            return f"{predict}\nreturn F.cross_entropy(logits, y, weight=class_weights)  #@loss"
        case "bce":
            return block(f"""
                {predict}
                hot = F.one_hot(y, {classes}).to(logits.dtype)
                return F.binary_cross_entropy_with_logits(logits, hot)  #@loss
                """)
    return f"{predict}\nreturn F.multi_margin_loss(logits, y)  #@loss"


def classification(draw: Draw, script: Script) -> Task:
    inputs, width, classes, rows = (
        draw.number(6, 10),
        draw.number(16, 32),
        draw.number(3, 4, 5),
        _rows(draw),
    )
    _features(draw, script, rows, inputs)
    script.data.append(
        block(f"""
        teacher = torch.randn({inputs}, {classes})
        labels = (features @ teacher).argmax(dim=1)  #@targets
        """)
    )
    body = write_body(draw, script, "vector")
    loss = _class_loss(draw, script, classes)
    _net(
        script,
        layers=f"self.body = Body({inputs}, {width})  #@body\n"
        f"self.head = nn.Linear({width}, {classes})  #@head",
        forward="return self.head(self.body(x))",
    )
    return Task(
        rows,
        ("features", "labels"),
        ("x", "y"),
        loss,
        labels="labels",
        deterministic=not _is_random(body),
    )


def images(draw: Draw, script: Script) -> Task:
    """Classify noise images by their bright quarter."""
    width, rows = draw.number(8, 12), _rows(draw)
    script.data.append(
        block(f"""
        labels = torch.randint(4, ({rows},))  #@targets
        images = 0.5 * torch.randn({rows}, 1, 8, 8)  #@features
        for index, label in enumerate(labels.tolist()):
            top, left = 4 * (label // 2), 4 * (label % 2)
            images[index, :, top : top + 4, left : left + 4] += 1.0
        """)
    )
    body = write_body(draw, script, "image")
    loss = _class_loss(draw, script, 4)
    _net(
        script,
        layers=f"self.body = Body(1, {width})  #@body\n"
        f"self.head = nn.Linear({4 * width}, 4)  #@head",
        forward="return self.head(F.adaptive_avg_pool2d(self.body(x), 2).flatten(1))",
    )
    return Task(
        rows,
        ("images", "labels"),
        ("x", "y"),
        loss,
        labels="labels",
        deterministic=not _is_random(body),
    )


def segmentation(draw: Draw, script: Script) -> Task:
    """Find the bright pixels."""
    width, rows = draw.number(8, 12), draw.number(64, 96) + HELD_OUT
    script.data.append(
        block(f"""
        images = torch.randn({rows}, 1, 8, 8)  #@features
        smooth = F.avg_pool2d(images, 3, stride=1, padding=1).squeeze(1)
        masks = (smooth > 0.1).long()  #@targets
        """)
    )
    write_body(draw, script, "image")
    match draw.axis("loss", ["cross_entropy", "bce_dice"]):
        case "cross_entropy":
            outputs = 2
            loss = "logits = model(x)  #@forward\nreturn F.cross_entropy(logits, y)  #@loss"
        case _:
            outputs = 1
            loss = block("""
                logits = model(x).squeeze(1)  #@forward
                wanted = y.to(logits.dtype)
                share = torch.sigmoid(logits)
                overlap = (share * wanted).sum(dim=(1, 2))
                dice = 1 - (2 * overlap + 1) / (share.sum(dim=(1, 2)) + wanted.sum(dim=(1, 2)) + 1)
                return F.binary_cross_entropy_with_logits(logits, wanted) + dice.mean()  #@loss
                """)
    _net(
        script,
        layers=f"self.body = Body(1, {width})  #@body\n"
        f"self.head = nn.Conv2d({width}, {outputs}, 1)  #@head",
        forward="return self.head(self.body(x))",
    )
    return Task(rows, ("images", "masks"), ("x", "y"), loss)


def sequence(draw: Draw, script: Script) -> Task:
    """Running sums of a sequence: one value for each step, or the last one only."""
    inputs, width, rows, length = (
        3,
        draw.number(12, 16),
        draw.number(64, 96) + HELD_OUT,
        draw.number(6, 9),
    )
    script.data.append(
        block(f"""
        series = torch.randn({rows}, {length}, {inputs})  #@features
        sums = torch.tanh(series[:, :, 0].cumsum(dim=1) / 2)  #@targets
        lengths = torch.randint(3, {length + 1}, ({rows},))
        """)
    )
    body = write_body(draw, script, "sequence")
    columns: tuple[str, ...] = ("series", "sums")
    batch: tuple[str, ...] = ("x", "y")
    match draw.axis("loss", ["each_step", "masked_steps", "last_step"]):
        case "each_step":
            loss = "prediction = model(x)  #@forward\nreturn F.mse_loss(prediction, y)  #@loss"
        case "masked_steps":
            columns, batch = (*columns, "lengths"), (*batch, "length")
            loss = block("""
                prediction = model(x)  #@forward
                mask = torch.arange(x.shape[1]).unsqueeze(0) < length.unsqueeze(1)
                return ((prediction - y) ** 2)[mask].mean()  #@loss
                """)
        case _:
            loss = block("""
                prediction = model(x)[:, -1]  #@forward
                return F.l1_loss(prediction, y[:, -1])  #@loss
                """)
    _net(
        script,
        layers=f"self.body = Body({inputs}, {width})  #@body\n"
        f"self.head = nn.Linear({width}, 1)  #@head",
        forward="return self.head(self.body(x)).squeeze(-1)",
    )
    return Task(rows, columns, batch, loss, deterministic=not _is_random(body))


def language_model(draw: Draw, script: Script) -> Task:
    """Predict the next token of sequences that follow a rule, with some noise."""
    words, width, rows, length = (
        draw.number(11, 17),
        draw.number(16, 24),
        draw.number(64, 96) + HELD_OUT,
        8,
    )
    script.data.append(
        block(f"""
        tokens = torch.zeros({rows}, {length + 1}, dtype=torch.long)
        tokens[:, 0] = torch.randint({words}, ({rows},))
        for position in range({length}):
            following = (3 * tokens[:, position] + 1) % {words}
            surprise = torch.rand({rows}) < 0.1
            other = torch.randint({words}, ({rows},))
            tokens[:, position + 1] = torch.where(surprise, other, following)
        """)
    )
    body = write_body(draw, script, "sequence")
    match draw.axis("loss", ["flattened", "transposed", "label_smoothing"]):
        case "flattened":
            loss = "return F.cross_entropy(logits.flatten(0, 1), line[:, 1:].flatten())  #@loss"
        case "transposed":
            loss = "return F.cross_entropy(logits.transpose(1, 2), line[:, 1:])  #@loss"
        case _:
            loss = block("""
                wanted = line[:, 1:].reshape(-1)
                logits = logits.reshape(len(wanted), -1)
                return F.cross_entropy(logits, wanted, label_smoothing=0.05)  #@loss
                """)
    loss = f"logits = model(line[:, :-1])  #@forward\n{loss}"
    tied = draw.axis("tying", ["tied", "untied"]) == "tied"
    layers = (
        f"self.embedding = nn.Embedding({words}, {width})\n"
        f"self.body = Body({width}, {width})  #@body"
    )
    layers += f"\nself.head = nn.Linear({width}, {words}, bias=False)  #@head"
    if tied:
        layers += f"\nnn.init.normal_(self.embedding.weight, std={width} ** -0.5)"
        layers += "\nself.head.weight = self.embedding.weight"
    _net(script, layers=layers, forward="return self.head(self.body(self.embedding(x)))")
    return Task(
        rows, ("tokens",), ("line",), loss, deterministic=not _is_random(body), simple_call=False
    )


def autoencoder(draw: Draw, script: Script) -> Task:
    inputs, width, rows = draw.number(8, 12), draw.number(16, 24), _rows(draw)
    script.data.append(
        block(f"""
        factors = torch.randn({rows}, 3)
        features = torch.tanh(factors @ torch.randn(3, {inputs}))  #@features
        features = features + 0.05 * torch.randn({rows}, {inputs})
        """)
    )
    body = write_body(draw, script, "vector")
    noisy = draw.axis("loss", ["mse", "denoising", "l1"])
    predict = "rebuilt = model(x)  #@forward"
    if noisy == "denoising":
        predict = "rebuilt = model(x + 0.1 * torch.randn_like(x))  #@forward"
    measure = "F.l1_loss" if noisy == "l1" else "F.mse_loss"
    _net(
        script,
        layers=block(f"""
            self.body = Body({inputs}, {width})  #@body
            self.code = nn.Linear({width}, 3)
            first, last = nn.Linear(3, {width}), nn.Linear({width}, {inputs})
            self.decoder = nn.Sequential(first, nn.Tanh(), last)
            """),
        forward="return self.decoder(self.code(self.body(x)))",
    )
    random = noisy == "denoising" or _is_random(body)
    return Task(
        rows,
        ("features",),
        ("x",),
        f"{predict}\nreturn {measure}(rebuilt, x)  #@loss",
        deterministic=not random,
    )


def vae(draw: Draw, script: Script) -> Task:
    inputs, width, rows = draw.number(8, 10), draw.number(16, 24), _rows(draw)
    script.data.append(
        block(f"""
        factors = torch.randn({rows}, 2)
        features = torch.tanh(factors @ torch.randn(2, {inputs}))  #@features
        """)
    )
    write_body(draw, script, "vector")
    draw.axis("loss", ["elbo"])
    _net(
        script,
        layers=block(f"""
            self.body = Body({inputs}, {width})  #@body
            self.moments = nn.Linear({width}, 4)
            first, last = nn.Linear(2, {width}), nn.Linear({width}, {inputs})
            self.decoder = nn.Sequential(first, nn.Tanh(), last)
            """),
        forward="""
            mean, log_variance = self.moments(self.body(x)).chunk(2, dim=-1)
            code = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
            return self.decoder(code), mean, log_variance
            """,
    )
    loss = block("""
        rebuilt, mean, log_variance = model(x)  #@forward
        fit = (rebuilt - x).pow(2).sum(dim=1)  #@loss
        divergence = 0.5 * (mean.pow(2) + log_variance.exp() - 1 - log_variance).sum(dim=1)
        return (fit + 0.1 * divergence).mean()
        """)
    return Task(rows, ("features",), ("x",), loss, deterministic=False, learning_rate=0.3)


def contrastive(draw: Draw, script: Script) -> Task:
    """Match two noisy views of a sample against all others in the batch."""
    inputs, width, rows = draw.number(8, 12), draw.number(16, 24), _rows(draw)
    _features(draw, script, rows, inputs)
    write_body(draw, script, "vector")
    draw.axis("loss", ["info_nce"])
    _net(
        script,
        layers=f"self.body = Body({inputs}, {width})  #@body\n"
        f"self.head = nn.Linear({width}, 8)  #@head",
        forward="return F.normalize(self.head(self.body(x)), dim=-1)",
    )
    loss = block("""
        first = model(x + 0.1 * torch.randn_like(x))  #@forward
        second = model(x + 0.1 * torch.randn_like(x))
        similarity = first @ second.T / 0.2
        own = torch.arange(len(x))
        return (F.cross_entropy(similarity, own) + F.cross_entropy(similarity.T, own)) / 2  #@loss
        """)
    return Task(rows, ("features",), ("x",), loss, deterministic=False)


def policy(draw: Draw, script: Script) -> Task:
    """A contextual bandit: one action is correct for each observation."""
    inputs, width, rows = draw.number(6, 8), draw.number(16, 24), _rows(draw)
    _features(draw, script, rows, inputs)
    script.data.append(f"right_action = (features @ torch.randn({inputs}, 3)).argmax(dim=1)")
    script.imports.add("from torch.distributions import Categorical")
    write_body(draw, script, "vector")
    entropy = draw.axis("loss", ["reinforce", "reinforce_entropy"]) == "reinforce_entropy"
    _net(
        script,
        layers=f"self.body = Body({inputs}, {width})  #@body\n"
        f"self.head = nn.Linear({width}, 3)  #@head",
        forward="return self.head(self.body(x))",
    )
    bonus = " - 0.01 * choice.entropy().mean()" if entropy else ""
    loss = block(f"""
        choice = Categorical(logits=model(x))  #@forward
        action = choice.sample()
        reward = (action == right).to(x.dtype)
        advantage = reward - reward.mean()
        return -(choice.log_prob(action) * advantage).mean(){bonus}  #@loss
        """)
    return Task(rows, ("features", "right_action"), ("x", "right"), loss, deterministic=False)


def multi_task(draw: Draw, script: Script) -> Task:
    inputs, width, rows = draw.number(6, 10), draw.number(16, 32), _rows(draw)
    _features(draw, script, rows, inputs)
    script.data.append(
        block(f"""
        prices = torch.tanh(features[:, :2].sum(dim=1) / 2)  #@targets
        labels = (features @ torch.randn({inputs}, 3)).argmax(dim=1)
        """)
    )
    body = write_body(draw, script, "vector")
    learned = draw.axis("loss", ["sum", "learned_weights"]) == "learned_weights"
    layers = block(f"""
        self.body = Body({inputs}, {width})  #@body
        heads = {{"price": nn.Linear({width}, 1), "label": nn.Linear({width}, 3)}}
        self.heads = nn.ModuleDict(heads)
        """)
    if learned:
        layers += "\nself.uncertainty = nn.Parameter(torch.zeros(2))"
    _net(
        script,
        layers=layers,
        forward="""
            hidden = self.body(x)
            outputs = {name: head(hidden) for name, head in self.heads.items()}
            return outputs
            """
        if not learned
        else """
            hidden = self.body(x)
            outputs = {name: head(hidden) for name, head in self.heads.items()}
            return {**outputs, "uncertainty": self.uncertainty}
            """,
    )
    combine = "return price_loss + 0.5 * label_loss"
    if learned:
        combine = block("""
            losses = torch.stack([price_loss, label_loss])
            doubt = outputs["uncertainty"]
            return (losses * torch.exp(-doubt) + doubt).sum()
            """)
    loss = block("""
        outputs = model(x)  #@forward
        price_loss = F.mse_loss(outputs["price"].squeeze(1), price)  #@loss
        label_loss = F.cross_entropy(outputs["label"], label)
        """)
    return Task(
        rows,
        ("features", "prices", "labels"),
        ("x", "price", "label"),
        f"{loss}\n{combine}",
        labels="labels",
        deterministic=not _is_random(body),
    )


def graph(draw: Draw, script: Script) -> Task:
    """Classify nodes by the sum of their neighbours' features."""
    inputs, width, rows = draw.number(5, 7), draw.number(16, 24), draw.number(96, 128) + HELD_OUT
    script.data.append(
        block(f"""
        nodes = torch.randn({rows}, {inputs})
        sources, sinks = torch.randint({rows}, (2, {3 * rows}))
        gathered = torch.zeros_like(nodes).index_add(0, sinks, nodes[sources])
        labels = ((nodes + gathered) @ torch.randn({inputs}, 3)).argmax(dim=1)  #@targets
        node_ids = torch.arange({rows})
        """)
    )
    draw.axis("body", ["message_passing"])
    draw.axis("loss", ["cross_entropy"])
    mean = draw.axis("aggregation", ["sum", "mean"]) == "mean"
    share = "\n            messages = messages / degree.unsqueeze(1)" if mean else ""
    script.data.append(
        f"degree = torch.bincount(sinks, minlength={rows}).clamp(min=1).to(nodes.dtype)"
    )
    script.definitions.append(
        block("""
        class Layer(nn.Module):
            def __init__(self, inputs, outputs):
                super().__init__()
                self.own = nn.Linear(inputs, outputs)
                self.other = nn.Linear(inputs, outputs, bias=False)

            def forward(self, hidden):
                messages = torch.zeros_like(hidden).index_add(0, sinks, hidden[sources])
                SHARE
                return self.own(hidden) + self.other(messages)
        """).replace("        SHARE\n", f"        {share.strip()}\n" if mean else "")
    )
    _net(
        script,
        layers=f"self.first = Layer({inputs}, {width})\nself.second = Layer({width}, 3)  #@head",
        forward="return self.second(F.relu(self.first(nodes)))[ids]",
        arguments="ids",
    )
    loss = "logits = model(ids)  #@forward\nreturn F.cross_entropy(logits, y)  #@loss"
    return Task(rows, ("node_ids", "labels"), ("ids", "y"), loss, labels="labels")


def tabular(draw: Draw, script: Script) -> Task:
    width, rows = draw.number(16, 24), _rows(draw)
    script.data.append(
        block(f"""
        numeric = torch.randn({rows}, 4)  #@features
        city = torch.randint(7, ({rows},))
        tags = torch.randint(12, ({rows}, 3))
        effect = torch.randn(7)
        score = numeric[:, 0] + effect[city] + 0.2 * torch.randn({rows})
        clicked = (score > 0).to(numeric.dtype)  #@targets
        """)
    )
    body = write_body(draw, script, "vector")
    draw.axis("loss", ["bce_with_logits"])
    _net(
        script,
        layers=f"""
            self.city = nn.Embedding(7, 4)
            self.tags = nn.EmbeddingBag(12, 4, mode="mean")
            self.body = Body(12, {width})  #@body
            self.head = nn.Linear({width}, 1)  #@head
            """,
        forward="""
            joined = torch.cat([numeric, self.city(city), self.tags(tags)], dim=1)
            return self.head(self.body(joined)).squeeze(1)
            """,
        arguments="numeric, city, tags",
    )
    loss = block("""
        logit = model(numbers, where, words)  #@forward
        return F.binary_cross_entropy_with_logits(logit, y)  #@loss
        """)
    return Task(
        rows,
        ("numeric", "city", "tags", "clicked"),
        ("numbers", "where", "words", "y"),
        loss,
        deterministic=not _is_random(body),
        simple_call=False,
    )


def recommender(draw: Draw, script: Script) -> Task:
    users, items, rows = draw.number(20, 30), draw.number(15, 25), draw.number(192, 256) + HELD_OUT
    script.data.append(
        block(f"""
        users = torch.randint({users}, ({rows},))
        items = torch.randint({items}, ({rows},))
        taste, kind = torch.randn({users}, 2), torch.randn({items}, 2)
        ratings = torch.tanh((taste[users] * kind[items]).sum(dim=1))  #@targets
        """)
    )
    draw.axis("body", ["factors"])
    draw.axis("loss", ["mse", "mse_decay"])
    decay = draw.axes["loss"] == "mse_decay"
    _net(
        script,
        layers=f"""
            self.user = nn.Embedding({users}, 4)
            self.item = nn.Embedding({items}, 4)
            self.bias = nn.Embedding({items}, 1)
            nn.init.normal_(self.user.weight, std=0.3)
            nn.init.normal_(self.item.weight, std=0.3)
            nn.init.zeros_(self.bias.weight)
            """,
        forward="return (self.user(user) * self.item(item)).sum(dim=1) "
        "+ self.bias(item).squeeze(1)",
        arguments="user, item",
    )
    loss = (
        "prediction = model(user, item)  #@forward\nreturn F.mse_loss(prediction, rating)  #@loss"
    )
    if decay:
        loss = block("""
            prediction = model(user, item)  #@forward
            size = sum(each.pow(2).mean() for each in model.parameters())
            return F.mse_loss(prediction, rating) + 1e-3 * size  #@loss
            """)
    return Task(
        rows,
        ("users", "items", "ratings"),
        ("user", "item", "rating"),
        loss,
        simple_call=False,
        learning_rate=2.0,
    )


def speech(draw: Draw, script: Script) -> Task:
    """Read two symbols from a row of frames with CTC."""
    rows, width = draw.number(64, 96) + HELD_OUT, draw.number(12, 16)
    script.data.append(
        block(f"""
        spoken = torch.randint(1, 4, ({rows}, 2))  #@targets
        frames = F.one_hot(spoken.repeat_interleave(4, dim=1), 4).to(torch.get_default_dtype())
        frames = frames + 0.2 * torch.randn({rows}, 8, 4)  #@features
        """)
    )
    body = write_body(draw, script, "sequence")
    draw.axis("loss", ["ctc"])
    _net(
        script,
        layers=f"self.body = Body(4, {width})  #@body\nself.head = nn.Linear({width}, 4)  #@head",
        forward="return self.head(self.body(x))",
    )
    loss = block("""
        log_probabilities = F.log_softmax(model(x), dim=-1).transpose(0, 1)  #@forward
        frames_each = torch.full((len(x),), 8)
        symbols_each = torch.full((len(x),), 2)
        return F.ctc_loss(log_probabilities, text, frames_each, symbols_each)  #@loss
        """)
    return Task(
        rows,
        ("frames", "spoken"),
        ("x", "text"),
        loss,
        deterministic=not _is_random(body),
        learning_rate=0.5,
    )


def tags(draw: Draw, script: Script) -> Task:
    """Predict several labels for each sample."""
    inputs, width, rows = draw.number(6, 10), draw.number(16, 24), _rows(draw)
    _features(draw, script, rows, inputs)
    script.data.append(
        f"marks = (features @ torch.randn({inputs}, 4) > 0).to(features.dtype)  #@targets"
    )
    body = write_body(draw, script, "vector")
    match draw.axis("loss", ["bce_with_logits", "bce", "soft_margin"]):
        case "bce_with_logits":
            script.definitions.append("criterion = nn.BCEWithLogitsLoss()")
            loss = "logits = model(x)  #@forward\nreturn criterion(logits, y)  #@loss"
        case "bce":
            loss = block("""
                share = torch.sigmoid(model(x))  #@forward
                return F.binary_cross_entropy(share, y)  #@loss
                """)
        case _:
            loss = block("""
                logits = model(x)  #@forward
                return F.softplus(-logits * (2 * y - 1)).mean()  #@loss
                """)
    _net(
        script,
        layers=f"self.body = Body({inputs}, {width})  #@body\n"
        f"self.head = nn.Linear({width}, 4)  #@head",
        forward="return self.head(self.body(x))",
    )
    return Task(rows, ("features", "marks"), ("x", "y"), loss, deterministic=not _is_random(body))


def plain_tensors(draw: Draw, script: Script) -> Task:
    """A network without a module."""
    inputs, width, rows = draw.number(6, 9), draw.number(16, 24), _rows(draw)
    _features(draw, script, rows, inputs)
    script.data.append(f"targets = torch.tanh(features @ torch.randn({inputs}, 1))  #@targets")
    draw.axis("body", ["plain_tensors"])
    draw.axis("loss", ["mse"])
    script.definitions.append(
        block("""
        def model(x):
            first, bias, second = weights
            return torch.tanh(x @ first + bias) @ second
        """)
    )
    script.data.append(
        block(f"""
        weights = [
            (torch.randn({inputs}, {width}) / {inputs} ** 0.5).requires_grad_(),
            torch.zeros({width}, requires_grad=True),
            (torch.randn({width}, 1) / {width} ** 0.5).requires_grad_(),
        ]
        """)
    )
    loss = "prediction = model(x)  #@forward\nreturn F.mse_loss(prediction, y)  #@loss"
    return Task(rows, ("features", "targets"), ("x", "y"), loss, parameters="weights")


TASKS: dict[str, Callable[[Draw, Script], Task]] = {
    each.__name__: each
    for each in (
        regression,
        classification,
        images,
        segmentation,
        sequence,
        language_model,
        autoencoder,
        vae,
        contrastive,
        policy,
        multi_task,
        graph,
        tabular,
        recommender,
        speech,
        tags,
        plain_tensors,
    )
}


def keeps_state(body: str) -> bool:
    """Whether a forward pass of this body changes its state."""
    return body in STATEFUL
