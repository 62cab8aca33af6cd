import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A restore shows its records only if they cannot contain an operation that is still shown.
@Suite("The base of a restore", .bounded) struct ShownBaseTests {
    private static let (epoch, other) = (Epoch("one"), Epoch("two"))

    /// A state with one operation.
    private func state(
        _ phase: OutboxState.Phase,
        kind: OutboxState.Kind = .record,
        epoch: Epoch? = epoch,
        outcomeUnknown: Bool = false
    ) -> SyncState {
        let id = Identifier(at: ManualWallClock().now())
        var item = OutboxState.Item(id: id, sequence: 1, lane: "main", kind: kind, phase: phase)
        item.outcomeUnknown = outcomeUnknown
        item.epoch = epoch
        var outbox = OutboxState(limit: 10, [:])
        outbox.add(item)
        return SyncState(schema: .standard, outbox: outbox, position: 0)
    }

    private func mayShow(_ state: SyncState) -> Bool {
        state.mayShow(restoreTo: 10, of: Self.epoch)
    }

    @Test func `without operations the records are shown`() {
        let outbox = OutboxState(limit: 10, [:])
        #expect(mayShow(SyncState(schema: .standard, outbox: outbox, position: 0)))
    }

    @Test func `an operation that was never sent hides nothing`() {
        #expect(mayShow(state(.queued)))
    }

    @Test func `an operation that may have been applied hides the records`() {
        #expect(!mayShow(state(.queued, outcomeUnknown: true)))
        #expect(!mayShow(state(.sending(send: 1))))
    }

    @Test func `an operation that is applied hides the records up to its number`() {
        #expect(!mayShow(state(.acknowledged(head: 10))))
        #expect(mayShow(state(.acknowledged(head: 11))))
    }

    @Test func `a number of another epoch is not compared`() {
        #expect(!mayShow(state(.acknowledged(head: 11), epoch: Self.other)))
        #expect(!mayShow(state(.acknowledged(head: 11), epoch: nil)))
    }

    @Test func `a refused operation hides nothing`() {
        #expect(mayShow(state(.refused(Problem(.invalidContent, "Count less.")))))
    }

    @Test func `an operation at another backend hides nothing`() {
        #expect(mayShow(state(.queued, kind: .remote, outcomeUnknown: true)))
    }

    @Test func `a base with a position stays until the restore is complete`() {
        let outbox = OutboxState(limit: 10, [:])
        #expect(!mayShow(SyncState(schema: .standard, outbox: outbox, position: 5)))
    }
}
