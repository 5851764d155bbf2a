"""Options that take a Kubernetes quantity, checked before anything starts."""

from __future__ import annotations

import click

from strato.api import quantity


class QuantityType(click.ParamType[str]):
    """A quantity above zero, as written: ``32``, ``500m``, ``256Gi``. Empty stays empty where that is the default."""

    name = "quantity"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text when it is a quantity above zero."""
        if not value:
            return value
        try:
            parsed = quantity.parse(value)
        except ValueError:
            self.fail(f"{value!r} is not a quantity; write for example 4, 500m, 16Gi", param, ctx)
        if parsed.nanos <= 0:
            self.fail(f"{value!r} is not above zero", param, ctx)
        return value


QUANTITY = QuantityType()


class BytesType(click.ParamType[int]):
    """A number of bytes above zero, written as a quantity: ``64Mi``, ``2G``, ``1e9``."""

    name = "quantity"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        if isinstance(value, int):  # click calls this again with its result
            return value
        text = str(value)
        try:
            found = quantity.value(text)
        except quantity.InvalidQuantity as error:
            self.fail(f"{text!r} is not a quantity of bytes; write for example 64Mi or 2Gi: {error}", param, ctx)
        if found <= 0:
            self.fail(f"{text!r} is not above zero", param, ctx)
        return found


BYTES = BytesType()
