import Foundation

let isAsked = try await MemoryBenchmarks.serveIfAsked()
let isLive = isAsked ? true : try await LiveServers.serveIfAsked()
let isHabits = isLive ? true : try await HabitBenchmarks.serveIfAsked()
let isAttacked = isHabits ? true : try await AbuseBenchmarks.serveIfAsked()
let isServer = isAttacked ? true : try await FunctionServers.serveIfAsked()
if !isServer {
    let options = BenchmarkOptions.current
    let roundTime: Duration = options.quick ? .milliseconds(500) : .seconds(2)
    var report = Report()
    if options.includes(.http) {
        report.figures += try await HTTPBenchmarks.run(roundTime: roundTime)
        report.figures += try await IdentityBenchmarks.run(roundTime: roundTime)
    }
    if options.includes(.client) {
        report.figures += try await ClientBenchmarks.run(only: options.figure)
    }
    if options.includes(.memory) { report.figures += try MemoryBenchmarks.run() }
    if options.includes(.live) {
        report.figures += try await OtherDeviceBenchmarks.run()
        report.figures += try await LiveBenchmarks.run()
    }
    if options.includes(.habits) { report.figures += try await HabitBenchmarks.run() }
    if options.includes(.abuse) {
        report.figures += try await AbuseBenchmarks.run(only: options.attack)
    }
    if options.includes(.functions) {
        report.figures += try await FunctionBenchmarks.run(roundTime: roundTime)
    }
    if options.includes(.images) {
        report.figures += try await ImageBenchmarks.run()
        report.figures += try await ScrollBenchmarks.run()
    }
    if options.includes(.litellm) {
        report.figures += try await LiteLLMBenchmarks.run(roundTime: roundTime)
    }
    if options.includes(.load) {
        report.figures += try await LoadBenchmarks.run(users: options.users, roundTime: roundTime)
    }
    if options.includes(.size) {
        report.figures += try await SizeBenchmarks.run(rows: options.rows)
    }
    report.peers = [
        "Recorded before 2026-11-22 on other machines, and not measured in this run:",
        "Peers on a similar machine: a PostgreSQL function called by pgbench 12,000/s,",
        "FastAPI with Redis 3,100/s, a bare Hummingbird route 36,000 to 47,000/s.",
        "Proxies before language models, on four Graviton3 cores, passed through: Busbar and",
        "agentgateway 7,000 to 9,000/s and core, added p99 107 to 186 µs, added first byte 273 to",
        "332 µs; Bifrost 1,200/s and core, LiteLLM 152.",
        "TanStack query-core on a similar machine: a cached read 5.3 µs, a write 7.1 µs, 10,000",
        "invalidated by prefix 0.54 ms, a write to 1,000 observers 1.5 ms, 100 callers 0.68 ms.",
    ]
    report.printTable()
    try report.write(to: URL(filePath: ".build/bench.json"))
}
