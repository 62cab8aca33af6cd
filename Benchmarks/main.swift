import Foundation

let isAsked = try await MemoryBenchmarks.serveIfAsked()
let isLive = isAsked ? true : try await LiveServers.serveIfAsked()
let isHabits = isLive ? true : try await HabitBenchmarks.serveIfAsked()
let isAttacked = isHabits ? true : try await AbuseBenchmarks.serveIfAsked()
let isServer = isAttacked ? true : try await FunctionServers.serveIfAsked()
if !isServer {
    let isQuick = CommandLine.arguments.contains("--quick")
    // One of these with `--only=http`; all of them without it.
    let parts = ["http", "client", "memory", "live", "habits", "abuse", "functions", "litellm"]
    var only = CommandLine.arguments.compactMap { $0.split(separator: "=").last }
        .first { parts.contains(String($0)) }
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
    if only == nil || only == "functions" {
        report.figures += try await FunctionBenchmarks.run(
            roundTime: isQuick ? .milliseconds(500) : .seconds(2)
        )
    }
    if only == nil || only == "litellm" {
        report.figures += try await LiteLLMBenchmarks.run(
            roundTime: isQuick ? .milliseconds(500) : .seconds(2)
        )
    }
    report.peers = [
        "Peers on a like machine: a PostgreSQL function called by pgbench 12,000/s,",
        "FastAPI with Redis 3,100/s, a bare Hummingbird route 36,000 to 47,000/s.",
        "Proxies before language models, on four Graviton3 cores, passed through: Busbar and",
        "agentgateway 7,000 to 9,000/s and core, added p99 107 to 186 µs, added first byte 273 to",
        "332 µs; Bifrost 1,200/s and core, LiteLLM 152.",
        "TanStack query-core on a like machine: a cached read 5.3 µs, a write 7.1 µs, 10,000",
        "invalidated by prefix 0.54 ms, a write to 1,000 observers 1.5 ms, 100 callers 0.68 ms.",
    ]
    report.printTable()
    try report.write(to: URL(filePath: ".build/bench.json"))
}
