version 1.0

task fails {
  input { String why }
  command <<< echo "~{why}" >&2; exit 7 >>>
  runtime { cpu: 1 memory: "64MB" maxRetries: 1 }
}
