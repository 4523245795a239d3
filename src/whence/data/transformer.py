"""A scikit-learn pipeline step that passes data through and checks it.

Works without scikit-learn as well.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, Self

from whence.data.contract import Contract
from whence.data.leaves import is_frame
from whence.data.result import ContractBroken

WAYS = ("raise", "warn")


class ContractWarning(UserWarning):
    """The data break their contract, and the pipeline is set to continue."""


class ContractTransformer:
    """Check data in `transform` against the given contract, or one learned in `fit`.

    Implements scikit-learn's protocol without importing it. With `on_departure="raise"` a departure
    raises ContractBroken, with "warn" it is a ContractWarning.
    """

    def __init__(self, contract: Contract | None = None, on_departure: str = "raise") -> None:
        # scikit-learn's clone requires unmodified arguments; fit and transform validate them.
        self.contract = contract
        self.on_departure = on_departure

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        return {"contract": self.contract, "on_departure": self.on_departure}

    def set_params(self, **params: Any) -> Self:
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(
                    f"unknown parameter {name!r}; the parameters are contract, on_departure"
                )
            setattr(self, name, value)
        return self

    def fit(self, data: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn a contract if there is none.

        A given contract is kept, and `transform` checks the data against it.
        """
        self._look_at_parameters()
        self.contract_ = self.contract if self.contract is not None else Contract.fit(data)
        self.n_features_in_ = _width(data)
        names = _names(data)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, data: Any) -> Any:
        """Check the data and return them unchanged."""
        self._look_at_parameters()
        contract = getattr(self, "contract_", self.contract)
        if contract is None:
            raise ContractNotFitted(
                "this ContractTransformer has no contract: call fit, or pass one"
            )
        result = contract.check(data)
        if not result.ok and self.on_departure == "raise":
            raise ContractBroken(result)
        if not result.ok:
            warnings.warn(str(result), ContractWarning, stacklevel=2)
        return data

    def fit_transform(self, data: Any, y: Any = None, **_params: Any) -> Any:
        return self.fit(data, y).transform(data)

    def inverse_transform(self, data: Any) -> Any:
        return data

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the input names unchanged."""
        names = (
            input_features
            if input_features is not None
            else getattr(self, "feature_names_in_", None)
        )
        if names is None:
            names = [f"x{place}" for place in range(getattr(self, "n_features_in_", 0))]
        numpy = sys.modules.get("numpy")
        return numpy.asarray(names, dtype=object) if numpy is not None else list(names)

    def set_output(self, *, transform: Any = None) -> Self:  # noqa: ARG002
        """Accept any output setting: data pass through unchanged."""
        return self

    def _look_at_parameters(self) -> None:
        if self.on_departure not in WAYS:
            raise ValueError(f'on_departure is {self.on_departure!r}; it must be "raise" or "warn"')

    def __repr__(self) -> str:
        given = "" if self.contract is None else "contract=..., "
        return f"ContractTransformer({given}on_departure={self.on_departure!r})"

    def __sklearn_is_fitted__(self) -> bool:
        return self.contract is not None or hasattr(self, "contract_")

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this, so it is installed.
        tools = sys.modules["sklearn.utils"]
        return tools.Tags(
            estimator_type=None,
            target_tags=tools.TargetTags(required=False),
            transformer_tags=tools.TransformerTags(preserves_dtype=[]),
            input_tags=tools.InputTags(allow_nan=True, string=True, categorical=True, sparse=True),
            requires_fit=self.contract is None,
        )


class ContractNotFitted(ValueError, AttributeError):
    """Mimic scikit-learn's NotFittedError."""


def _width(data: Any) -> int:
    shape = getattr(data, "shape", None)
    if shape is not None and len(shape) > 1:
        return int(shape[1])
    first = data[0] if isinstance(data, list) and data else None
    return len(first) if isinstance(first, list | tuple) else 1


def _names(data: Any) -> Any:
    if not is_frame(data) or not hasattr(data, "columns"):
        return None
    numpy = sys.modules.get("numpy")
    names = list(data.columns)
    return numpy.asarray(names, dtype=object) if numpy is not None else names
