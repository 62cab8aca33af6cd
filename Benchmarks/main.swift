import Foundation

let quick = CommandLine.arguments.contains("--quick")
var report = Report()
report.figures += try await HTTPBenchmarks.run(roundTime: quick ? .milliseconds(500) : .seconds(2))
report.peers = [
    "Peers on a like machine: PostgreSQL function by pgbench 12,000/s · FastAPI with Redis 3,100/s ·",
    "bare Hummingbird route 36,000 to 47,000/s.",
]
report.printTable()
try report.write(to: URL(filePath: ".build/bench.json"))
