import Logging
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Storage checks", .bounded)
struct ReadinessStateTests {
    private func tried(_ found: NotReady?, at moment: Duration = .zero) -> ReadinessState {
        var state = ReadinessState()
        _ = state.asked(at: moment)
        _ = state.tried(found, at: moment)
        return state
    }

    @Test func `the storage is checked once per interval, however many requests ask`() {
        var state = ReadinessState()
        #expect(state.asked(at: .zero) == .probe)
        #expect(state.asked(at: .zero) == .wait)
        #expect(state.tried(nil, at: .seconds(1)) == nil)
        #expect(state.asked(at: .seconds(5)) == .answer(nil))
        #expect(state.asked(at: .seconds(6)) == .probe)
    }

    @Test(arguments: [
        (StorageError.full("no room"), NotReady.diskFull),
        (.readOnly("mounted so"), .readOnly), (.unknownOutcome("I/O"), .failed),
    ])
    func `a failure seen by a request counts until the next check`(
        error: StorageError,
        fault: NotReady
    ) {
        var state = tried(nil)
        state.saw(error)
        #expect(state.asked(at: .seconds(1)) == .answer(fault))
        #expect(state.asked(at: .seconds(5)) == .probe)
        #expect(state.tried(nil, at: .seconds(5)) == nil)
        #expect(state.asked(at: .seconds(6)) == .answer(nil))
    }

    @Test(arguments: [StorageError.failed("a bug"), .overloaded(retryAfterSeconds: 1), .closed])
    func `one failed command does not make the server unready`(error: StorageError) {
        var state = tried(nil)
        state.saw(error)
        #expect(state.asked(at: .seconds(1)) == .answer(nil))
    }

    @Test func `damage persists even if later operations succeed`() {
        var state = ReadinessState()
        #expect(state.asked(at: .zero) == .probe)
        state.saw(.damaged("a page"))
        #expect(state.tried(nil, at: .zero) == .damaged)
        #expect(state.asked(at: .seconds(60)) == .answer(.damaged))

        var found = tried(.damaged)
        #expect(found.asked(at: .seconds(60)) == .answer(.damaged))
    }

    @Test func `a check that hangs is neither awaited nor repeated`() {
        var state = ReadinessState()
        #expect(state.asked(at: .zero) == .probe)
        state.ranOutOfPatience()
        #expect(state.asked(at: .seconds(60)) == .answer(.stalled))
        #expect(state.tried(nil, at: .seconds(61)) == nil)
        #expect(state.asked(at: .seconds(62)) == .answer(nil))
        state.ranOutOfPatience()
        #expect(state.asked(at: .seconds(70)) == .probe)
    }
}

@Suite("GET /health/ready", .bounded)
struct ReadinessTests {
    @Test(arguments: [
        (StorageError.full("/data"), "disk_full"), (.readOnly("/data"), "disk_read_only"),
        (.damaged("/data"), "data_damaged"), (.failed("/data"), "storage_failed"),
        (.unknownOutcome("/data"), "storage_failed"), (.closed, "stopping"),
        (.overloaded(retryAfterSeconds: 2), "overloaded"),
    ])
    func `health names the fault on both ports without its details`(
        failure: StorageError,
        code: String
    ) async throws {
        let storage = FaultyStorage()
        storage.failHealth(failure)
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            for toAdmin in [false, true] {
                let reply = try await server.send("GET", "/health/ready", toAdmin: toAdmin)
                #expect(reply.status == 503)
                #expect(reply.code == code)
                #expect(reply["Retry-After"] == "1")
                #expect(!reply.body.contains("/data"))
                let live = try await server.send("GET", "/health/live", toAdmin: toAdmin)
                #expect(live.status == 200)
            }
        }
    }

    private func askOften(_ server: LiveServer) async throws {
        for _ in 1...50 {
            let reply = try await server.send("GET", "/health/ready")
            #expect(reply.status == 200)
        }
    }

    @Test func `many health requests cause one check`() async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let atStart = storage.healthChecks
            try await askOften(server)
            #expect(storage.healthChecks == atStart)
            server.setup.delay.advance(by: ReadinessState.interval)
            try await askOften(server)
            #expect(storage.healthChecks == atStart + 1)
        }
    }

    @Test func `a full disk makes the server unready, and a check makes it ready again`()
        async throws
    {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            storage.fail { $0.isEmpty ? nil : .full("no room") }
            let refused = try await guest.spend(1)
            #expect(refused.code == "overloaded")
            #expect(refused["Retry-After"] == "60")
            #expect(try await server.send("GET", "/health/ready").code == "disk_full")
            storage.fail { _ in nil }
            server.setup.delay.advance(by: ReadinessState.interval)
            #expect(try await server.send("GET", "/health/ready").status == 200)
            #expect(try await guest.spend(1).status == 200)
        }
    }

    @Test func `a storage that hangs is reported after a time limit`() async throws {
        let clock = ManualClock()
        let readiness = Readiness(delay: clock)
        let storage = FaultyStorage()
        let gate = WatchedState(false)
        storage.holdHealth(until: gate)
        let asked = Task { await readiness.check(storage) }
        try await clock.waitForSleepers(1)
        clock.advance(by: ReadinessState.patience)
        #expect(try await asked.finished() == .stalled)
        #expect(await readiness.check(storage) == .stalled)
        gate.withLock { $0 = true }
        try await eventually("the check has ended") { await readiness.check(storage) == nil }
        #expect(storage.healthChecks == 1)
    }
}

@Suite("Free disk space", .bounded)
struct SpaceWatchTests {
    @Test func `a disk that fills up is reported once an hour, and once when it has space again`() {
        var watch = SpaceWatch(limit: 1_000)
        #expect(watch.check(5_000, at: .zero) == nil)
        #expect(watch.check(999, at: .seconds(10)) == .low)
        #expect(watch.check(998, at: .seconds(20)) == nil)
        #expect(watch.check(997, at: .seconds(3_609)) == nil)
        #expect(watch.check(996, at: .seconds(3_610)) == .low)
        #expect(watch.check(1_050, at: .seconds(3_620)) == nil)
        #expect(watch.check(999, at: .seconds(3_630)) == nil)
        #expect(watch.check(1_100, at: .seconds(3_640)) == .enough)
        #expect(watch.check(1_200, at: .seconds(3_650)) == nil)
        #expect(watch.check(999, at: .seconds(3_660)) == .low)
    }

    @Test func `nothing is reported with a limit of 0 or an unknown free space`() {
        var never = SpaceWatch(limit: 0)
        #expect(never.check(0, at: .zero) == nil)
        var unknown = SpaceWatch(limit: 1_000)
        #expect(unknown.check(nil, at: .zero) == nil)
    }

    @Test func `the free bytes are a metric, and low space is logged`() async throws {
        let storage = FaultyStorage(freeBytes: 4_096)
        let sink = MemorySink()
        let log = LogQueue(sink: sink)
        try await LiveServer.with {
            $0.storage = storage
            $0.logger = .init(label: "test") { JSONLogHandler(label: $0, queue: log) }
        } _: { server in
            let metrics = try await server.send("GET", "/metrics", toAdmin: true)
            #expect(metrics.body.contains("data_free_bytes 4096.0\n"))
            try await server.setup.delay.waitForSleepers(1)
        }
        #expect(await log.flush(within: .seconds(30)))
        let lines = sink.lines.filter { $0.contains("is filling up") }
        #expect(lines.count == 1)
        #expect(lines.first?.contains("\"freeBytes\":\"4096\"") == true)
    }
}
