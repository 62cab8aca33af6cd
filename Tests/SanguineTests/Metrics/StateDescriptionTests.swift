import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// One line for each state, without values, lanes, ids and error messages.
@Suite("Descriptions of states", .bounded)
struct StateDescriptionTests {
    private static let secret = "ada@example.org"
    private let now = Timestamp(millisecondsSince1970: 1_000_000)
    private let id = Identifier(at: Timestamp(millisecondsSince1970: 1))

    // MARK: - Entry

    @Test func `an entry without data says whether it is fetched, and for how many callers`() {
        var state = EntryState()
        #expect(state.debugDescription == "no data")

        _ = state.join(waiter: 1, nextFetch: 7)
        _ = state.join(waiter: 2, nextFetch: 8)
        #expect(state.debugDescription == "no data, fetching, 2 waiting")
    }

    @Test func `an entry with data says whether it was invalidated and is observed`() {
        var state = EntryState()
        _ = state.observe(1, isFresh: false, nextFetch: 7)
        _ = state.complete(7, at: now, nextFetch: 8)
        #expect(state.debugDescription == "held, 1 observing")

        state.markStale(generation: 1)
        #expect(state.debugDescription == "held, invalidated, 1 observing")
    }

    @Test func `a failed entry names the code of the error, and not its text`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        _ = state.fail(7, error: .transport(.offline(Self.secret)), nextFetch: 8)
        #expect(state.debugDescription == "no data, failed with offline")
    }

    @Test func `a code that is not of the usual form is not shown`() {
        var state = EntryState()
        _ = state.join(waiter: 1, nextFetch: 7)
        let problem = Problem(ProblemCode(rawValue: Self.secret), "Ask \(Self.secret).")
        _ = state.fail(7, error: .problem(problem), nextFetch: 8)
        #expect(state.debugDescription == "no data, failed with other")
    }

    // MARK: - Outbox

    private func outbox() -> OutboxState {
        OutboxState(limit: 10, [.remote: .init(operations: 1, sends: 2)])
    }

    private func item(_ sequence: Int64) -> OutboxState.Item {
        OutboxState.Item(id: id, sequence: sequence, lane: Self.secret, kind: .remote)
    }

    @Test func `an outbox counts its operations by phase, and the sends in progress`() {
        var state = outbox()
        state.add(item(1))
        state.add(item(2))
        #expect(
            state.debugDescription == "2 of 10 operations; 2 unsent, 0 settling, 0 refused"
        )

        _ = state.startSend()
        #expect(state.debugDescription.hasSuffix("; 1 send in progress"))
    }

    @Test func `an outbox says why nothing is sent, and shows no lane`() throws {
        var state = outbox()
        state.add(item(1))
        let taken = state.startSend()
        let send = try #require(taken).send.number
        _ = state.fail(send, .retry, wasSent: false)
        #expect(state.debugDescription.contains("next try awaited by 1 lane"))
        #expect(state.failuresInARow(of: 1) == 1)
        #expect(state.waitingGroups(of: 1).count == 1)

        state.set(.offline, true)
        state.set(.signIn(.remote), true)
        #expect(
            state.debugDescription.hasSuffix("; paused: no network, no valid token of the backend")
        )
        #expect(!state.debugDescription.contains(Self.secret))
    }

    // MARK: - Feed

    @Test func `a feed connection is described by its state, and by what prevents it`() {
        var state = FeedConnectionState(isForeground: true, isOnline: true)
        var random = SplitMix64(seed: 1)
        #expect(state.debugDescription == "not connected")
        _ = state.start()
        #expect(state.debugDescription == "connecting")
        _ = state.opened(1, at: .zero)
        #expect(state.debugDescription == "connected, nothing heard yet")
        _ = state.heard(1)
        #expect(state.debugDescription == "connected")
        _ = state.ended(1, .failed(retryAfter: nil), at: .seconds(1), using: &random)
        #expect(state.debugDescription == "waiting to connect again, 1 failure in a row")
        _ = state.setOnline(false)
        _ = state.setForeground(false)
        #expect(state.debugDescription == "not connected, in the background, no network")
        _ = state.close()
        #expect(state.debugDescription == "closed, in the background, no network")
    }

    @Test func `a feed is described by its position, its distance and what it lacks`() throws {
        let base = RecordsFile.Base.empty
        var state = SyncState(schema: .standard, outbox: OutboxState(limit: 10, [:]), position: 1)
        #expect(state.debugDescription == "at 1, no epoch, needs a pull")

        let epoch = try #require(Epoch("a-rather-long-epoch"))
        let operation = Replay.Operation(
            sequence: 1,
            id: id,
            mutation: CreateRecord(RecordKey("notes", .of(Self.secret)), [:])
        )
        var item = OutboxState.Item(id: id, sequence: 1, lane: Self.secret)
        item.outcomeUnknown = true
        state.outbox.enter(epoch)
        _ = try state.add(operation, as: item, over: base)
        // Held back: the answer does not say whether it contains the operation.
        let page = PullAnswer(changes: [], next: 5, head: 8, hasMore: true, epoch: epoch)
        _ = state.received(.init(page, since: 1), over: base)

        #expect(
            state.debugDescription
                == "at 1, epoch a-rather, 7 behind, 0 changes held back, needs a pull"
        )
    }
}
