import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Feed heads", .bounded)
struct HeadListenerTests {
    /// The heads that a listener received.
    private final class NotifiedHeads: Sendable {
        private let list = Mutex<[Int64]>([])

        var heads: [Int64] { list.withLock { $0 } }

        func add(_ head: Int64) { list.withLock { $0.append(head) } }
    }

    private func listen(to world: SyncWorld) -> NotifiedHeads {
        let notified = NotifiedHeads()
        let own = world.account
        world.authority.onHead { account, head in
            if account == own { notified.add(head) }
        }
        return notified
    }

    @Test func `a listener is notified of each commit that adds to a feed`() async throws {
        let world = try await SyncWorld { $0.quotas = ["readings": 3] }
        let notified = listen(to: world)
        let spend = Submission("spend", SpendRequest(amount: 1, reason: "tea"))
        let consume = Submission("consume", ConsumeRequest(amount: 1))

        try await world.push(CreateMany(ids: ["a", "b"], text: "x"))
        _ = try await world.authority.spend(world.account, spend)
        _ = try await world.authority.consume("readings", world.account, consume)
        _ = try await world.authority.patchAccount(world.account, ["language": "de"])

        #expect(notified.heads == [4, 5, 6, 7])
    }

    @Test func `a listener is not notified of commits that add nothing`() async throws {
        let world = try await SyncWorld()
        let spend = Submission("spend", SpendRequest(amount: 1, reason: "tea"))
        _ = try await world.authority.spend(world.account, spend)
        let notified = listen(to: world)

        _ = try await world.authority.spend(world.account, spend)
        try await world.push(DeleteRecord(.note("a")), SetFields(.note("a"), [:]))
        _ = try await world.stranger()

        #expect(notified.heads.isEmpty)
    }

    @Test func `every listener is notified`() async throws {
        let world = try await SyncWorld()
        let all = [listen(to: world), listen(to: world)]

        try await world.push(CreateRecord(.note("a"), [:]))

        #expect(all.map(\.heads) == [[3], [3]])
    }
}
