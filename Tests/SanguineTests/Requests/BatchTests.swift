import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Batched lookups, with real tasks and a scripted network.
@Suite("Batched lookups", .bounded)
struct BatchTests {
    private struct Item: Codable, Sendable, Equatable {
        var id: String
    }

    private static func batch(size: Int = 100) -> Batch<String, Item> {
        Batch("item", size: size) { request, ids in
            let list = URLQueryItem(name: "ids", value: ids.joined(separator: ","))
            let found: [Item] = try await request.get("items", query: [list])
            return Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
        }
    }

    private static func item(
        _ id: String,
        size: Int = 100,
        policy: Policy = .fresh(for: .minutes(5))
    ) -> ValueQuery<Item> {
        .batched(by: batch(size: size), id, policy: policy)
    }

    /// A backend that knows every item except those whose id begins with an x.
    private static func network() -> ScriptedTransport {
        ScriptedTransport { .json(ids(of: $0).filter { !$0.hasPrefix("x") }.map(Item.init)) }
    }

    private static func ids(of request: TransportRequest) -> [String] {
        let query = URLComponents(url: request.url, resolvingAgainstBaseURL: false)?.queryItems
        return query?.first?.value?.split(separator: ",").map(String.init) ?? []
    }

    private static func ask(_ query: ValueQuery<Item>, _ test: TestClient) -> Task<Item, any Error>
    {
        Task { try await test.client.value(of: query) }
    }

    private static func waitForAskers(
        _ count: Int,
        _ test: TestClient,
        line: Int = #line
    ) async throws {
        try await eventually("\(count) callers have joined", line: line) {
            test.client.batches.askerCount == count
        }
    }

    /// Ends the open window as soon as its task sleeps.
    private static func endWindow(_ test: TestClient, line: Int = #line) async throws {
        try await eventually("the window is open", line: line) {
            guard let next = test.delay.timeToNextWake, next <= ClientLimits.batchWindow else {
                return false
            }
            test.delay.advance(by: next)
            return true
        }
    }

    /// Ends windows until that many requests have arrived.
    private static func endWindows(
        _ test: TestClient,
        untilRequests count: Int,
        line: Int = #line
    ) async throws {
        try await eventually("\(count) requests", line: line) {
            if let next = test.delay.timeToNextWake, next <= ClientLimits.batchWindow {
                test.delay.advance(by: next)
            }
            return test.network.requests.count >= count
        }
    }

    @Test func `lookups in one batch count as one request to the host`() async throws {
        let test = try TestClient(network: Self.network())
        let most = 3 * ClientLimits.requestsPerRetry
        let callers = (1...most).map { Self.ask(Self.item("\($0)"), test) }
        try await Self.waitForAskers(most, test)
        try await Self.endWindow(test)
        for caller in callers { _ = try await caller.finished() }

        #expect(test.retriesLeft() == ClientLimits.retryReserve)
    }

    @Test func `simultaneous lookups become one request`() async throws {
        let test = try TestClient(network: Self.network())
        let callers = (1...20).map { Self.ask(Self.item("\($0)"), test) }
        try await Self.waitForAskers(20, test)
        try await Self.endWindow(test)
        var found: [String] = []
        for caller in callers { found.append(try await caller.finished().id) }

        #expect(found == (1...20).map(String.init))
        #expect(test.network.requests.count == 1)
        #expect(test.client.cached(Self.item("7")) == Item(id: "7"))
        #expect(test.client.batches.askerCount == 0)
    }

    @Test(arguments: ["caf\u{E9}", "cafe\u{301}"])
    func `canonically equivalent ids share one lookup`(answered: String) async throws {
        let network = ScriptedTransport { _ in .json([Item(id: answered)]) }
        let test = try TestClient(network: network)
        let callers = ["caf\u{E9}", "cafe\u{301}"].map { Self.ask(Self.item($0), test) }
        try await Self.waitForAskers(1, test)
        try await Self.endWindow(test)
        for caller in callers { #expect(try await caller.finished().id == answered) }

        #expect(network.requests.map { Self.ids(of: $0).count } == [1])
        #expect(test.client.cached(Self.item("caf\u{E9}"))?.id == answered)
        #expect(test.client.cached(Self.item("cafe\u{301}"))?.id == answered)
    }

    @Test func `an id missing from the answer is not found, and the others are`() async throws {
        let test = try TestClient(network: Self.network())
        let (missing, there) = (Self.ask(Self.item("x"), test), Self.ask(Self.item("1"), test))
        try await Self.waitForAskers(2, test)
        try await Self.endWindow(test)

        let error = await #expect(throws: SanguineError.self) { try await missing.finished() }
        #expect(error?.code == "not_found")
        #expect(try await there.finished() == Item(id: "1"))
        #expect(test.network.requests.count == 1)
    }

    @Test func `a response can contain an error for each id`() async throws {
        let test = try TestClient(network: Self.network())
        let batch = Batch<Int, Item>.results("judged") { _, ids in
            let judged = ids.map { id -> (Int, Result<Item, SanguineError>) in
                (
                    id,
                    id < 0
                        ? .failure(.queryFailed(ClosureFailure("negative")))
                        : .success(Item(id: "\(id)"))
                )
            }
            return Dictionary(uniqueKeysWithValues: judged)
        }
        let callers = [1, -1].map { Self.ask(.batched(by: batch, $0), test) }
        try await Self.waitForAskers(2, test)
        try await Self.endWindow(test)

        #expect(try await callers[0].finished() == Item(id: "1"))
        await #expect(throws: SanguineError.queryFailed(ClosureFailure("negative"))) {
            try await callers[1].finished()
        }
    }

    @Test func `a full batch is sent without waiting`() async throws {
        let test = try TestClient(network: Self.network())
        let callers = (1...4).map { Self.ask(Self.item("\($0)", size: 2), test) }
        for caller in callers { _ = try await caller.finished() }

        #expect(test.network.requests.map { Self.ids(of: $0).count } == [2, 2])
    }

    @Test func `a failed batch is retried as one`() async throws {
        let test = try TestClient(network: Self.network())
        test.network.script(.status(503))
        let callers = (1...5).map { Self.ask(Self.item("\($0)"), test) }
        try await Self.waitForAskers(5, test)
        try await Self.endWindow(test)
        try await test.network.waitForRequests(1)
        // The deadlines of the five lookups and of their batch, and the delay before the retry.
        try await test.delay.waitForSleepers(7)
        test.delay.advance(by: .seconds(2))
        for caller in callers { _ = try await caller.finished() }

        #expect(test.network.requests.map { Self.ids(of: $0).count } == [5, 5])
    }

    @Test func `an error of the whole batch reaches every caller, and none retries`() async throws {
        let test = try TestClient(network: Self.network())
        test.network.script(.status(500))
        let policy = Policy.alwaysStale.retry(.never)
        let callers = (1...3).map { Self.ask(Self.item("\($0)", policy: policy), test) }
        try await Self.waitForAskers(3, test)
        try await Self.endWindow(test)
        for caller in callers {
            let error = await #expect(throws: SanguineError.self) { try await caller.finished() }
            #expect(error?.code == "http_500")
        }

        #expect(test.network.requests.count == 1)
    }

    @Test func `a caller that cancels leaves the batch to the others`() async throws {
        let test = try TestClient(network: Self.network())
        let (leaver, other) = (Self.ask(Self.item("1"), test), Self.ask(Self.item("2"), test))
        try await Self.waitForAskers(2, test)
        leaver.cancel()
        await #expect(throws: SanguineError.cancelled) { try await leaver.finished() }
        try await Self.waitForAskers(1, test)
        try await Self.endWindow(test)

        #expect(try await other.finished() == Item(id: "2"))
        #expect(test.network.requests.map(Self.ids) == [["2"]])
    }

    @Test func `the request is cancelled when all callers cancel`() async throws {
        let test = try TestClient(network: Self.network())
        test.network.hold()
        let callers = (1...3).map { Self.ask(Self.item("\($0)"), test) }
        try await Self.waitForAskers(3, test)
        try await Self.endWindow(test)
        try await test.network.waitForHeld(1)
        callers[0].cancel()
        callers[1].cancel()
        try await Self.waitForAskers(1, test)
        #expect(test.network.cancelled == 0)
        callers[2].cancel()

        try await test.network.waitForCancelled(1)
        for caller in callers {
            await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        }
    }

    @Test func `a lookup cancelled before its window ends sends nothing`() async throws {
        let test = try TestClient(network: Self.network())
        let caller = Self.ask(Self.item("1"), test)
        try await Self.waitForAskers(1, test)
        caller.cancel()
        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        try await test.delay.waitForNoSleepers()

        #expect(test.network.requests.isEmpty)
    }

    @Test func `lookups with different policies are not batched together`() async throws {
        let test = try TestClient(network: Self.network())
        let shared = Policy.fresh(for: .minutes(5)).audience(.everyone)
        let callers = [
            Self.ask(Self.item("1"), test), Self.ask(Self.item("2", policy: shared), test),
        ]
        try await Self.waitForAskers(2, test)
        try await Self.endWindows(test, untilRequests: 2)
        for caller in callers { _ = try await caller.finished() }

        #expect(Set(test.network.requests.map(Self.ids)) == [["1"], ["2"]])
    }

    @Test func `one user's lookups are not sent for the next user`() async throws {
        let authorizer = TestAuthorizer()
        let test = try TestClient(network: Self.network(), authorizer: authorizer)
        let old = Self.ask(Self.item("old"), test)
        try await Self.waitForAskers(1, test)
        authorizer.change(to: Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6bb"), in: test.client)
        let new = Self.ask(Self.item("new"), test)
        await #expect(throws: SanguineError.userChanged) { try await old.finished() }
        try await Self.endWindows(test, untilRequests: 1)

        #expect(try await new.finished() == Item(id: "new"))
        #expect(test.network.requests.map(Self.ids) == [["new"]])
        #expect(test.network.requests.first?.headers["Authorization"] == "Bearer token-1-0")
    }

    @Test func `a batch has the highest priority of its callers`() async throws {
        let test = try TestClient(network: Self.network()) { $0.readsPerHost = 1 }
        test.network.hold()
        let lane = ValueQuery<[Item]>("lane") { try await $0.get("items") }
        let taken = Task { try await test.client.value(of: lane) }
        try await test.network.waitForHeld(1)
        let second = ValueQuery<[Item]>("second") { try await $0.get("second") }
        let behind = Task { try await test.client.value(of: second) }
        let host = URL(string: TestClient.server)?.hostKey ?? ""
        try await eventually("a read waits") { test.client.queue.waiting(for: host) == 1 }
        test.client.prefetch(Self.item("1"))
        try await Self.waitForAskers(1, test)
        try await Self.endWindow(test)
        try await eventually("two reads wait") { test.client.queue.waiting(for: host) == 2 }
        let caller = Task { try await test.client.value(of: Self.item("1"), priority: .visible) }
        try await eventually("a visible read waits") {
            test.client.queue.waiting(for: host, of: .visible) == 1
        }
        try await test.network.releaseFirst()
        try await test.network.waitForRequests(2)

        #expect(Self.ids(of: test.network.requests[1]) == ["1"])
        test.network.release()
        _ = try await caller.finished()
        _ = try await behind.finished()
        _ = try await taken.finished()
    }

    @Test func `sizes and windows are limited`() {
        let wide = Batch<Int, Item>("wide", size: .max, window: .seconds(60)) { _, _ in [:] }
        #expect(wide.size == ClientLimits.largestBatch)
        #expect(wide.window == ClientLimits.longestBatchWindow)
        let narrow = Batch<Int, Item>("narrow", size: 0, window: .seconds(-1)) { _, _ in [:] }
        #expect(narrow.size == 1 && narrow.window == .zero)
    }
}
