import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Setting values", .bounded)
struct SettingValuesTests {
    private let ada = ValueQuery<Profile>.profile("ada")

    @Test func `a value that was set is available at once, fresh, and on disk`() async throws {
        let folder = TemporaryFolder()
        let first = try TestClient(network: .profiles(), folder: folder)
        #expect(first.client.set(Profile(name: "set"), for: ada))
        #expect(first.client.cached(ada)?.name == "set")
        #expect(try await first.client.value(of: ada).name == "set")
        #expect(first.network.requests.isEmpty)
        first.client.close()
        let second = try TestClient(network: .profiles(), wall: first.wall, folder: folder)

        #expect(second.client.cached(ada)?.name == "set")
    }

    @Test func `observers receive a new value but not an equal one`() async throws {
        let test = try TestClient(network: .profiles())
        test.client.set(Profile(name: "one"), for: ada)
        var updates = test.client.updates(of: ada).makeAsyncIterator()
        #expect(await updates.next()?.value?.name == "one")
        test.client.set(Profile(name: "one"), for: ada)
        test.client.set(Profile(name: "two"), for: ada)

        #expect(await updates.next()?.value?.name == "two")
    }

    @Test func `an observer is called in order, even for its own changes`() throws {
        let test = try TestClient(network: .profiles())
        test.client.set(Profile(name: "0"), for: ada)
        let seen = Mutex<[String]>([])
        let following = test.client.observe(ada) { state in
            let name = state.value?.name ?? "none"
            seen.withLock { $0.append(name) }
            if name == "1" { test.client.set(Profile(name: "2"), for: ada) }
        }
        test.client.set(Profile(name: "1"), for: ada)
        #expect(seen.withLock { $0 } == ["0", "1", "2"])
        withExtendedLifetime(following) {}
    }

    @Test func `an observer is not called after it is released`() throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()  // Otherwise a fetched value could arrive in between.
        let calls = Mutex(0)
        var following: ObservationToken? = test.client.observe(ada) { _ in
            calls.withLock { $0 += 1 }
        }
        let before = calls.withLock { $0 }
        #expect(following != nil)
        following = nil
        test.client.set(Profile(name: "1"), for: ada)

        #expect(calls.withLock { $0 } == before)
    }

    @Test func `a value that is set while a reader reads the clock is fresh`() async throws {
        let clock = InterruptedClock()
        let test = try TestClient(network: .profiles()) { $0.clock = clock }
        test.client.set(Profile(name: "first"), for: ada)
        clock.interrupt { test.client.set(Profile(name: "second"), for: ada) }

        #expect(try await test.client.value(of: ada).name == "second")
        #expect(test.network.requests.isEmpty)
    }

    @Test func `a fetch in flight does not overwrite a value that was set`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        async let fetched = test.client.value(of: ada)
        try await test.network.waitForHeld(1)
        test.client.set(Profile(name: "set"), for: ada)
        test.network.release()

        #expect(try await fetched.name == "set")
        #expect(test.client.cached(ada)?.name == "set")
    }

    @Test func `an updated value keeps its age and staleness, and a stale one is fetched`()
        async throws
    {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: ada)
        let asOf = test.client.snapshot(of: ada).asOf
        test.wall.advance(by: .seconds(10))
        test.client.update(ada) { $0.name += "!" }
        #expect(test.client.snapshot(of: ada).asOf == asOf)
        #expect(test.client.queries.isFresh(ada))
        test.client.invalidate(ada)
        test.client.update(ada) { $0.name += "!" }

        #expect(!test.client.queries.isFresh(ada))
        #expect(try await test.client.value(of: ada).name == "ada 2")
    }

    @Test func `an update survives a fetch in flight, and another fetch follows`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: ada)
        let following = test.client.observe(ada) { _ in }
        test.network.hold()
        test.client.invalidate(ada)
        try await test.network.waitForHeld(1)
        test.client.update(ada) { $0.name = "mine" }
        test.network.release()
        try await test.network.waitForRequests(3)
        try await eventually("the fetch has ended") { !test.client.snapshot(of: ada).isFetching }

        #expect(test.client.cached(ada)?.name == "ada 3")
        withExtendedLifetime(following) {}
    }

    @Test func `a fetch that fails after a value was set leaves no error`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(404))
        test.network.hold()
        async let fetched = test.client.value(of: ada)
        try await test.network.waitForHeld(1)
        test.client.set(Profile(name: "set"), for: ada)
        test.network.release()

        #expect(try await fetched.name == "set")
        #expect(test.client.snapshot(of: ada).error == nil)
    }

    @Test func `an earlier user's value is not read from the pending writes`() throws {
        let authorizer = TestAuthorizer(account: nil)
        let test = try TestClient(folder: TemporaryFolder(), authorizer: authorizer)
        test.client.set(Profile(name: "old"), for: ada)
        authorizer.change(to: nil, in: test.client)

        #expect(test.client.cached(ada) == nil)
    }

    @Test func `a retention time of any length is accepted`() throws {
        let query = ValueQuery<Profile>("p", policy: .forever.kept(for: .seconds(Int64.max))) { _ in
            Profile(name: "x")
        }
        let test = try TestClient(folder: TemporaryFolder())
        test.client.set(Profile(name: "old"), for: query)
        test.client.queries.entries.flush()
        test.client.queries.sweep()

        #expect(test.client.cached(query)?.name == "old")
    }

    @Test func `simultaneous updates are all applied`() async throws {
        let test = try TestClient(network: .profiles())
        test.client.set(Profile(name: ""), for: ada)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<200 {
                group.addTask { test.client.update(ada) { $0.name += "x" } }
            }
        }

        #expect(test.client.cached(ada)?.name.count == 200)
    }

    @Test func `updating a missing value does nothing`() throws {
        let test = try TestClient(network: .profiles())
        #expect(test.client.update(ada) { $0.name = "x" } == nil)
        #expect(test.client.cached(ada) == nil)
    }

    @Test func `setting a value for a user who has left is refused`() throws {
        let authorizer = TestAuthorizer()
        let test = try TestClient(authorizer: authorizer)
        let before = test.client.queries.entries.user
        authorizer.change(to: nil, in: test.client)

        #expect(!test.client.queries.set(Profile(name: "old"), for: ada, in: before))
        #expect(test.client.cached(ada) == nil)
    }

    @Test func `the balance cannot be set`() throws {
        let test = try TestClient()
        let balance = Balance(
            unit: "tokens",
            available: 1,
            held: 0,
            head: 1,
            asOf: Timestamp(millisecondsSince1970: 0)
        )
        // Rejected by the compiler if the type is known, and by the result otherwise.
        func set<Value>(_ value: Value, for query: ValueQuery<Value>) -> Bool {
            test.client.set(value, for: query)
        }
        #expect(!set(balance, for: .balance))
        #expect(test.client.cached(.balance) == nil)
    }

    @Test func `a value that compares equal replaces the cached one`() throws {
        struct Draft: Codable, Sendable, Equatable {
            let id: Int
            var text: String

            static func == (lhs: Self, rhs: Self) -> Bool { lhs.id == rhs.id }
        }
        let test = try TestClient()
        let query = ValueQuery<Draft>("draft") { _ in Draft(id: 1, text: "") }
        test.client.set(Draft(id: 1, text: "first"), for: query)
        test.client.set(Draft(id: 1, text: "second"), for: query)
        test.client.update(query) { $0.text += ", third" }

        #expect(test.client.cached(query)?.text == "second, third")
    }

    @Test func `a stored value of a different version is dropped and counted`() throws {
        let folder = TemporaryFolder()
        let old = ValueQuery<Profile>("p", policy: .forever.stored(.onDisk)) { _ in
            Profile(name: "x")
        }
        let new = ValueQuery<Profile>("p", policy: .forever.stored(.onDisk).version(2)) { _ in
            Profile(name: "x")
        }
        let first = try TestClient(folder: folder)
        first.client.set(Profile(name: "old"), for: old)
        first.client.close()
        let second = try TestClient(folder: folder)

        #expect(second.client.cached(new) == nil)
        #expect(second.client.storeReport.droppedRows == 1)
    }

    @Test func `a value is no longer shown after its retention time`() throws {
        let folder = TemporaryFolder()
        let query = ValueQuery<Profile>("p", policy: .forever.stored(.onDisk).kept(for: .hours(1)))
        {
            _ in
            Profile(name: "x")
        }
        let first = try TestClient(folder: folder)
        first.client.set(Profile(name: "old"), for: query)
        first.client.close()
        let wall = ManualWallClock(first.wall.now() + .hours(1))
        let second = try TestClient(wall: wall, folder: folder)

        #expect(second.client.cached(query) == nil)
    }

    @Test func `a sweep removes expired values and keeps observed ones`() async throws {
        let test = try TestClient()
        let policy = Policy.forever.kept(for: .hours(1))
        let idle = ValueQuery<Profile>("idle", policy: policy) { _ in Profile(name: "x") }
        let seen = ValueQuery<Profile>("seen", policy: policy) { _ in Profile(name: "x") }
        test.client.set(Profile(name: "idle"), for: idle)
        test.client.set(Profile(name: "seen"), for: seen)
        let updates = test.client.updates(of: seen)
        test.wall.advance(by: .hours(2))
        test.client.queries.sweep()

        #expect(test.client.cached(idle) == nil)
        #expect(test.client.cached(seen)?.name == "seen")
        withExtendedLifetime(updates) {}
    }
}

/// A clock that runs a closure during one of its readings, after which it has advanced by a second.
private final class InterruptedClock: WallClock {
    private struct State {
        var now = Timestamp(millisecondsSince1970: 1_000_000)
        var event: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    func interrupt(_ event: @escaping @Sendable () -> Void) {
        state.withLock { $0.event = event }
    }

    func now() -> Timestamp {
        let (now, event) = state.withLock { state in
            defer { state.event = nil }
            defer { if state.event != nil { state.now = state.now + .seconds(1) } }
            return (state.now, state.event)
        }
        event?()
        return now
    }
}
