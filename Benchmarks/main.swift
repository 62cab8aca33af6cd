import Foundation

let isAsked = try await MemoryBenchmarks.serveIfAsked()
let isLive = isAsked ? true : try await LiveServers.serveIfAsked()
let isHabits = isLive ? true : try await HabitBenchmarks.serveIfAsked()
let isServer = isHabits ? true : try await AbuseBenchmarks.serveIfAsked()
if !isServer {
    let isQuick = CommandLine.arguments.contains("--quick")
    // `--only=http`, `client`, `memory`, `live`, `habits` or `abuse`; all of them without it.
    var only = CommandLine.arguments.compactMap { $0.split(separator: "=").last }
        .first { ["http", "client", "memory", "live", "habits", "abuse"].contains($0) }
    // `--figure=callers`: of the client's figures those with the text in their name.
    let figure = CommandLine.arguments.first { $0.hasPrefix("--figure=") }
        .map { String($0.dropFirst("--figure=".count)) }
    if figure != nil { only = "client" }
    var report = Report()
    if only == nil || only == "http" {
        report.figures += try await HTTPBenchmarks.run(
            roundTime: isQuick ? .milliseconds(500) : .seconds(2)
        )
    }
    if only == nil || only == "client" {
        report.figures += try await ClientBenchmarks.run(only: figure)
    }
    if only == nil || only == "memory" { report.figures += try MemoryBenchmarks.run() }
    if only == nil || only == "live" {
        report.figures += try await OtherDeviceBenchmarks.run()
        report.figures += try await LiveBenchmarks.run()
    }
    if only == nil || only == "habits" { report.figures += try await HabitBenchmarks.run() }
    if only == nil || only == "abuse" { report.figures += try await AbuseBenchmarks.run() }
    report.peers = [
        "Peers on a like machine: a PostgreSQL function called by pgbench 12,000/s,",
        "FastAPI with Redis 3,100/s, a bare Hummingbird route 36,000 to 47,000/s.",
        "TanStack query-core on a like machine: a cached read 5.3 µs, a write 7.1 µs, 10,000",
        "invalidated by prefix 0.54 ms, a write to 1,000 observers 1.5 ms, 100 callers 0.68 ms.",
    ]
    report.printTable()
    try report.write(to: URL(filePath: ".build/bench.json"))
}
