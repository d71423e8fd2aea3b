"""google.cloud.monitoring: a custom metric of a training."""

import os
import time

from google.cloud import monitoring_v3

from trainers.flags import parsed


def main():
    parsed()
    client = monitoring_v3.MetricServiceClient()
    series = monitoring_v3.TimeSeries()
    series.metric.type = "custom.googleapis.com/training/loss"
    series.resource.type = "global"
    interval = monitoring_v3.TimeInterval({"end_time": {"seconds": int(time.time())}})
    series.points = [monitoring_v3.Point({"interval": interval, "value": {"double_value": 0.5}})]
    name = f"projects/{os.environ['GOOGLE_CLOUD_PROJECT']}"
    client.create_time_series(name=name, time_series=[series], timeout=20)
    print("measured")


if __name__ == "__main__":
    main()
