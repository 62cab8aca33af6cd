import Foundation
import SanguineModel
import SanguineTesting
import TestSupport

@testable import Sanguine

/// A function that keeps history and streams its answer; it costs 3 tokens.
struct Chat: FunctionCall {
    struct Input: Codable, Sendable {
        var question: String
        var isWaiting = false
    }
    typealias Output = String

    static let name = "chat"
    static let rules = FunctionRules(price: .fixed(3), streams: true, keepsHistory: true)
    static let whenOffline = OfflineCall.queue

    var input: Input

    init(_ question: String, isWaiting: Bool = false) {
        input = Input(question: question, isWaiting: isWaiting)
    }

    static func parts(_ question: String) -> [String] { ["You ", "asked: ", question] }
}

/// Devices of one account, and an authority that serves `chat` with a network between them.
struct ThreadStage {
    static let path = "/v1/functions/chat"

    let wall = ManualWallClock()
    let authority: InMemoryAuthority
    let network: FaultyNetwork
    let phone: TestDevice
    let tablet: TestDevice
    /// A thread that does not exist yet.
    let thread = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 7)))
    /// The number of parts that `chat` may write if the question waits.
    let allowed = WatchedState(0)

    init(accounts: InMemoryAuthority.Accounts = .one) {
        let authority = InMemoryAuthority(accounts: accounts, clock: wall)
        self.authority = authority
        let network = FaultyNetwork(authority, seed: 1, clock: SkippingClock())
        self.network = network
        phone = Self.device(network, wall, seed: 1)
        tablet = Self.device(network, wall, seed: 2)
        authority.serve(Chat.self, price: 3) { [allowed] input, write in
            for (index, part) in Chat.parts(input.question).enumerated() {
                if input.isWaiting {
                    try await allowed.wait(for: "part \(index)", within: TestingLimits.longestWait)
                    {
                        $0 > index
                    }
                }
                await write(part)
            }
            return Chat.parts(input.question).joined()
        }
    }

    private static func device(
        _ network: FaultyNetwork,
        _ wall: ManualWallClock,
        seed: UInt64
    ) -> TestDevice {
        TestDevice(network: network, clock: wall, seed: seed) { $0.logger = .silent }
    }

    /// A device of the account that was never used.
    func newDevice() -> TestDevice { Self.device(network, wall, seed: 3) }

    /// Lets `chat` write that many parts of the questions that wait.
    func allow(_ parts: Int) { allowed.withLock { $0 = parts } }

    /// Returns a client that has fetched the balance and the records.
    func launch(_ device: TestDevice) async throws -> SanguineClient {
        let client = try device.launch()
        _ = try await client.value(of: .balance)
        try await client.synchronize()
        return client
    }

    func goOffline(_ device: TestDevice) {
        network.partition()
        device.connectivity.disconnect()
    }

    func goOnline(_ device: TestDevice) {
        network.heal()
        device.connectivity.connect()
    }

    /// Asks questions in a thread, one after the other, a second apart.
    func ask(_ client: SanguineClient, in thread: RecordID, _ questions: String...) async throws {
        for question in questions {
            wall.advance(by: .seconds(1))
            try await client.call(Chat(question), in: thread)
        }
    }

    /// Writes a thread with questions and answers, as other devices have asked them.
    func write(
        _ thread: RecordID,
        questions: Int,
        _ text: (Int) -> String = { "message \($0)" }
    ) {
        let start = wall.now()
        var stored = ChatThread(id: thread, function: Chat.name, createdAt: start)
        var changes: [ChatMessage] = []
        for number in 0..<questions {
            let key = "0199f3c8-0000-7000-8000-" + String(format: "%012d", number)
            let time = start + .milliseconds(number)
            for (role, id) in [
                (ChatMessage.Role.user, ChatMessage.question(of: key)),
                (.assistant, ChatMessage.answer(of: key)),
            ] {
                guard let id else { continue }
                stored.lastPosition += 1
                var message = ChatMessage(
                    id: id,
                    thread: thread,
                    position: stored.lastPosition,
                    role: role,
                    state: .complete,
                    call: key,
                    createdAt: time
                )
                message.set(MessageContent(.string(text(stored.lastPosition))))
                changes.append(message)
            }
            stored.lastMessageAt = time
        }
        stored.messages = changes.count
        authority.set(stored)
        for message in changes { authority.set(message) }
    }
}

extension SanguineClient {
    /// The texts of the last messages of a thread.
    func texts(_ thread: RecordID) -> [String] { threads.messages(of: thread).map(\.text) }

    /// Returns the results of a search, once the index is complete.
    func found(_ text: String, in area: String? = nil) async throws -> [ThreadSearch.Result] {
        var search = try await threads.search(prefix: text, in: area)
        try await eventually("the index is complete") {
            search = try await threads.search(prefix: text, in: area)
            return search.isComplete
        }
        return search.results
    }
}
