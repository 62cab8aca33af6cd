import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The lock that orders changes of the user is held over nothing that is the app's, or may be.
@Suite("The app's code while the user changes", .bounded)
struct UserLockTests {
    private let user = TestAuthorizer()
    private let probe = LockProbe()

    /// A client whose reads wait for their answers.
    private func client() throws -> TestClient {
        let test = try TestClient(network: .stretches(), authorizer: user)
        test.network.hold()
        return test
    }

    @Test func `whoever watches a stretch is told under no lock that the user has gone`()
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

    @Test func `whoever observes a list is told under no lock that the user has gone`()
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

    @Test func `whoever watches is told under no lock that the client is closed`() async throws {
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

    @Test func `a value that is stored when the client is closed is encoded under no lock`()
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

/// A value that looks at the lock when it is encoded.
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

/// Finds out whether the lock that orders changes of the user is free.
///
/// Mutable state: `client` and `found`, each by its mutex.
private final class LockProbe: Sendable {
    private let client = Mutex<SanguineClient?>(nil)
    private let found = Mutex<[Bool]>([])

    /// Whether it was free, at each look.
    var findings: [Bool] { found.withLock { $0 } }

    /// Returns when it has looked so often: the thread that tells observers may be another one.
    func waitForLooks(_ count: Int) async throws {
        try await eventually("\(count) looks at the lock") { findings.count >= count }
    }

    /// From now on it looks.
    func arm(_ client: SanguineClient) { self.client.withLock { $0 = client } }

    /// Tries to take the lock on another thread, for 2 s at most.
    func look() {
        guard let client = client.withLock({ $0 }) else { return }
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            // What takes the lock and does nothing.
            try? client.users.discardUnclaimed()
            done.signal()
        }
        let isFree = done.wait(timeout: .now() + .seconds(2)) == .success
        found.withLock { $0.append(isFree) }
    }
}
