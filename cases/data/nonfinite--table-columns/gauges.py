"""Feature tables of the river gauges."""
import numpy as np

INPUTS = ["flow", "rise", "rain_3h", "season"]


def with_features(readings, hours=3):
    table = readings.rename(columns={"q": "flow"}).sort_values(["gauge", "hour"])
    table["remark"] = table["remark"].fillna("")
    table["rise"] = table.groupby("gauge")["flow"].diff(hours)  # ORIGIN
    table["rain_3h"] = table.groupby("gauge")["rain"].transform(lambda rain: rain.rolling(hours, min_periods=1).sum())
    table = table.assign(season=np.sin(2 * np.pi * table["hour"] / 8760), ahead=table.groupby("gauge")["flow"].shift(-1))
    return table[table["ahead"].notna()].reset_index(drop=True)
