"""Sources of batches: each writes its code and returns the expression to loop over."""

from __future__ import annotations

from draw import Draw
from script import Script, block
from tasks import Task

LOADERS = [
    "loader",
    "loader_generator",
    "workers",
    "collate",
    "iterable",
    "random_split",
    "weighted_sampler",
    "batch_sampler",
    "indexing",
    "slices",
    "numpy_order",
    "generator",
    "dataset_class",
    "python_shuffle",
]


def write_loader(draw: Draw, script: Script, task: Task, *, rows: int, batch_size: int) -> str:
    columns = ", ".join(task.columns)
    only = task.columns[0] if len(task.columns) == 1 else None
    options = [each for each in LOADERS if each != "weighted_sampler" or task.labels]
    kind = draw.axis("loader", options)
    add = script.data.append
    if kind in {
        "loader",
        "loader_generator",
        "workers",
        "random_split",
        "weighted_sampler",
        "batch_sampler",
    }:
        script.imports.add("from torch.utils.data import DataLoader, TensorDataset")
    match kind:
        case "loader":
            add(
                f"loader = DataLoader(TensorDataset({columns}), batch_size={batch_size}, "
                "shuffle=True)"
            )
        case "loader_generator":
            add(
                block(f"""
                order = torch.Generator().manual_seed(7)
                dataset = TensorDataset({columns})
                loader = DataLoader(
                    dataset, batch_size={batch_size}, shuffle=True, drop_last=True, generator=order
                )
                """)
            )
        case "workers":
            add(
                block(f"""
                loader = DataLoader(
                    TensorDataset({columns}),
                    batch_size={batch_size},
                    shuffle=True,
                    num_workers=2,
                    persistent_workers={draw.chance(0.5)},
                )
                """)
            )
        case "random_split":
            script.imports.add("from torch.utils.data import random_split")
            add(
                block(f"""
                dataset = TensorDataset({columns})
                training, spare = random_split(dataset, [{rows}, len(dataset) - {rows}])
                loader = DataLoader(training, batch_size={batch_size}, shuffle=True)
                """)
            )
        case "weighted_sampler":
            script.imports.add("from torch.utils.data import WeightedRandomSampler")
            add(
                block(f"""
                share = 1.0 / torch.bincount({task.labels}).clamp(min=1).double()
                sampler = WeightedRandomSampler(share[{task.labels}], {rows})
                loader = DataLoader(
                    TensorDataset({columns}), batch_size={batch_size}, sampler=sampler
                )
                """)
            )
        case "batch_sampler":
            script.imports.add("from torch.utils.data import BatchSampler, RandomSampler")
            add(
                block(f"""
                dataset = TensorDataset({columns})
                batch_sampler = BatchSampler(RandomSampler(dataset), {batch_size}, drop_last=False)
                loader = DataLoader(dataset, batch_sampler=batch_sampler)
                """)
            )
        case "collate":
            script.imports.add("from torch.utils.data import DataLoader")
            script.definitions.append(
                block("""
                def collate(samples):
                    counts["collated"] += 1
                    return tuple(torch.stack(column) for column in zip(*samples))
                """)
            )
            add(
                block(f"""
                rows = list(zip({columns}))
                loader = DataLoader(rows, batch_size={batch_size}, shuffle=True, collate_fn=collate)
                """)
            )
        case "iterable":
            script.imports.add("from torch.utils.data import DataLoader, IterableDataset")
            script.definitions.append(
                block("""
                class Stream(IterableDataset):
                    def __init__(self, *columns):
                        self.columns = columns

                    def __iter__(self):
                        for index in torch.randperm(len(self.columns[0])).tolist():
                            yield tuple(column[index] for column in self.columns)
                """)
            )
            add(f"loader = DataLoader(Stream({columns}), batch_size={batch_size})")
        case "dataset_class":
            script.imports.add("from torch.utils.data import DataLoader, Dataset")
            script.definitions.append(
                block("""
                class Table(Dataset):
                    def __init__(self, *columns):
                        self.columns = columns

                    def __len__(self):
                        return len(self.columns[0])

                    def __getitem__(self, index):
                        counts["samples"] += 1
                        return tuple(column[index] for column in self.columns)
                """)
            )
            add(f"loader = DataLoader(Table({columns}), batch_size={batch_size}, shuffle=True)")
        case "indexing":
            picked = (
                f"{only}[rows]," if only else ", ".join(f"{each}[rows]" for each in task.columns)
            )
            script.definitions.append(
                block(f"""
                def batches():
                    for rows in torch.randperm({rows}).split({batch_size}):
                        yield {picked}
                """)
            )
            return "batches()"
        case "slices":
            add("\n".join(f"{each}_batches = {each}.split({batch_size})" for each in task.columns))
            return "zip(" + ", ".join(f"{each}_batches" for each in task.columns) + ")"
        case "numpy_order":
            script.imports.add("import numpy as np")
            picked = (
                f"{only}[rows]," if only else ", ".join(f"{each}[rows]" for each in task.columns)
            )
            script.definitions.append(
                block(f"""
                def batches():
                    order = np.random.permutation({rows})
                    for start in range(0, {rows}, {batch_size}):
                        rows = torch.from_numpy(order[start : start + {batch_size}])
                        yield {picked}
                """)
            )
            return "batches()"
        case "generator":
            script.definitions.append(
                block(f"""
                def random_batches(*columns):
                    for _ in range({rows // batch_size}):
                        rows = torch.randint(len(columns[0]), ({batch_size},))
                        yield [column[rows] for column in columns]
                """)
            )
            return f"random_batches({columns})"
        case "python_shuffle":
            script.imports.add("import random")
            picked = (
                f"{only}[rows]," if only else ", ".join(f"{each}[rows]" for each in task.columns)
            )
            script.definitions.append(
                block(f"""
                def batches():
                    order = list(range({rows}))
                    random.shuffle(order)
                    for start in range(0, {rows}, {batch_size}):
                        rows = order[start : start + {batch_size}]
                        yield {picked}
                """)
            )
            return "batches()"
    return "loader"
