"""What the containers of Spark run on this machine's own programs: the entry point of Spark's image does the same.

Spark starts its pods with ``driver`` and what to submit, or with ``executor`` and everything else in the environment.
"""

import os
import sys
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
EXECUTOR_FLAGS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def driver(submitted: list[str]) -> list[str]:
    """Return the command of a driver."""
    address = os.environ["SPARK_DRIVER_BIND_ADDRESS"]
    addresses = [f"spark.driver.bindAddress={address}", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}"]
    confs = [word for one in addresses for word in ("--conf", one)]
    return [str(HOME / "bin" / "spark-submit"), *confs, "--deploy-mode", "client", *submitted]


def executor() -> list[str]:
    """Return the command of an executor."""
    options = [value for name, value in sorted(os.environ.items()) if name.startswith("SPARK_JAVA_OPT_")]
    memory = os.environ["SPARK_EXECUTOR_MEMORY"]
    flags = [word for flag, name in EXECUTOR_FLAGS.items() for word in (flag, os.environ[name])]
    path = f"{os.environ.get('SPARK_CONF_DIR', '')}:{HOME}/jars/*:{os.environ.get('SPARK_EXTRA_CLASSPATH', '')}"
    return ["java", *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", path, EXECUTOR, *flags]


if __name__ == "__main__":
    os.environ |= {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable}
    words = driver(sys.argv[2:]) if sys.argv[1] == "driver" else executor()
    os.execvp(words[0], words)
