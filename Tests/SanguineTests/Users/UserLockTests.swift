import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The lock that orders user changes is never held while code that may be the app's runs.
@Suite("The app's code during a user change", .bounded)
struct UserLockTests {
    private let user = TestAuthorizer()
    private let probe = LockProbe()

    /// Returns a client whose reads wait for their answers.
    private func client() throws -> TestClient {
        let test = try TestClient(network: .stretches(), authorizer: user)
        test.network.hold()
        return test
    }

    @Test func `observers of a range are notified of a user change without the lock held`()
        async throws
    {
        let test = try client()
        let source = test.client.queries.source(of: RangeQuery.tens)
        let watch = source.watch(1...4) { [probe] _ in probe.look() }
        try await test.network.waitForHeld(1)
        probe.arm(test.client)
        user.change(to: nil, in: test.client)

        try await probe.waitForLooks(1)
        #expect(!probe.findings.contains(false))
        watch?.end()
    }

    @Test func `observers of a list are notified of a user change without the lock held`()
        async throws
    {
        let test = try client()
        let source = test.client.queries.source(of: ListQuery<FeedRow>.feed("a"))
        let end = source.observe(.init(tell: { [probe] _ in probe.look() }, finish: {}))
        try await test.network.waitForHeld(1)
        probe.arm(test.client)
        user.change(to: nil, in: test.client)

        try await probe.waitForLooks(1)
        #expect(!probe.findings.contains(false))
        end?()
    }

    @Test func `observers are notified that the client is closed without the lock held`()
        async throws
    {
        let test = try client()
        let queries = test.client.queries
        let look: @Sendable () -> Void = { [probe] in probe.look() }
        _ = queries.source(of: RangeQuery.tens).watch(1...4, tell: { _ in look() }, finish: look)
        let list = queries.source(of: ListQuery<FeedRow>.feed("a"))
        _ = list.observe(.init(tell: { _ in look() }, finish: look))
        try await test.network.waitForHeld(2)
        probe.arm(test.client)
        test.client.close()

        try await probe.waitForLooks(2)
        #expect(!probe.findings.contains(false))
    }

    @Test func `a value stored when the client is closed is encoded without the lock held`()
        throws
    {
        let folder = TemporaryFolder()
        let test = try TestClient(folder: folder)
        let query = ValueQuery<Probing>("probing", policy: .forever.stored(.onDisk)) { _ in
            Probing()
        }
        probe.arm(test.client)
        test.client.set(Probing(probe: probe), for: query)
        test.client.close()

        #expect(probe.findings.count > 0 && probe.findings.allSatisfy(\.self))
    }
}

/// A value that checks the lock when it is encoded.
private struct Probing: Codable, Equatable {
    var probe: LockProbe?

    init(probe: LockProbe? = nil) { self.probe = probe }

    init(from decoder: any Decoder) {}

    func encode(to encoder: any Encoder) throws {
        probe?.look()
        var container = encoder.singleValueContainer()
        try container.encode(true)
    }

    static func == (one: Self, other: Self) -> Bool { true }
}

/// Checks whether the lock that orders user changes is free.
///
/// Mutable state: `client` and `found`, each protected by its mutex.
private final class LockProbe: Sendable {
    private let client = Mutex<SanguineClient?>(nil)
    private let found = Mutex<[Bool]>([])

    /// Whether the lock was free, for each check.
    var findings: [Bool] { found.withLock { $0 } }

    /// Returns after that many checks, since observers may be notified on another thread.
    func waitForLooks(_ count: Int) async throws {
        try await eventually("the lock was checked \(count) times") { findings.count >= count }
    }

    /// Starts checking.
    func arm(_ client: SanguineClient) { self.client.withLock { $0 = client } }

    /// Tries to acquire the lock on another thread, for at most 2 s.
    func look() {
        guard let client = client.withLock({ $0 }) else { return }
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            // This acquires the lock and does nothing else.
            try? client.users.discardUnclaimed()
            done.signal()
        }
        let isFree = done.wait(timeout: .now() + .seconds(2)) == .success
        found.withLock { $0.append(isFree) }
    }
}
