import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import SanguineServer

/// Random requests of two accounts, with two sessions each, to a server whose functions keep
/// answers for everyone, for an account and for a session, and store threads.
///
/// Both accounts send the same inputs, and use the keys and the thread ids of each other. The
/// output of a function names its account, and each run has a number. So two things reveal a leak:
/// a response that contains the id of the other account, and the number of a run that was made for
/// another caller.
struct SharedCacheGame: Sendable {
    /// An answer that every account may receive.
    struct Shared: FunctionCall {
        static let name = "shared"
        static let rules = FunctionRules(price: .fixed(1), cache: .forever.public(sharing: "q"))
        var input: Question
        typealias Output = Made
    }

    /// An answer that all sessions of an account may receive.
    struct Mine: FunctionCall {
        static let name = "mine"
        static let rules = FunctionRules(price: .fixed(1), cache: .forever)
        var input: Question
        typealias Output = Made
    }

    /// An answer that a session may receive.
    struct Brief: FunctionCall {
        static let name = "brief"
        static let rules = FunctionRules(price: .free, cache: .session)
        var input: Question
        typealias Output = Made
    }

    /// An answer in a thread.
    struct Chat: FunctionCall {
        static let name = "chat"
        static let rules = FunctionRules(
            price: .fixed(1),
            cache: .session,
            keepsHistory: true,
            history: HistoryRules(messages: 4)
        )
        var input: Question
        typealias Output = Made
    }

    /// The input of all functions.
    struct Question: Codable, Sendable { var q: String }

    /// The output of all functions.
    struct Made: Codable, Hashable, Sendable {
        /// The number of the run.
        var number: Int
        /// The account of the run, and the texts of its context.
        var by: String
    }

    /// A session of one of the two accounts.
    struct Caller: Sendable {
        let account: Int
        let session: Int
        let guest: Guest
    }

    /// A request.
    enum Asked: Sendable {
        case call(String, String, key: String)
        case chat(Identifier, String, key: String)
        case findCall(key: String)
        case cancelCall(key: String)
        case readThread(Identifier)
        case listMessages(Identifier)
        case push(String, Identifier)
        case read(String)
    }

    private static let questions = 6
    private static let functions = ["shared", "mine", "brief"]

    let callers: [Caller]
    private(set) var random: SplitMix64
    /// The keys and threads of each account.
    private var keys: [[String]] = [[], []]
    private var threads: [[Identifier]] = [[], []]
    /// The keys of the other account that an account tried to cancel: it does not use them.
    private var spared: [Set<String>] = [[], []]
    /// The threads that an account tried to delete: it does not begin them.
    private var gone: [Set<Identifier>] = [[], []]
    /// The callers that may receive the answer of each run.
    private var runs: [Int: String] = [:]
    private var count: Int64 = 0
    private(set) var hits = 0
    private(set) var missing = 0

    init(callers: [Caller], seed: UInt64) {
        (self.callers, random) = (callers, SplitMix64(seed: seed))
    }

    /// The functions of the server.
    static func served() -> [ServerFunction] {
        let number = Mutex(0)
        @Sendable func make(_ account: Identifier?, _ history: [ChatMessage] = []) -> Made {
            let who = account?.description ?? "everyone"
            let context = Set(history.map(\.text)).sorted().joined(separator: " ").suffix(400)
            return number.withLock { number in
                number += 1
                return Made(number: number, by: "\(who) after \(context)")
            }
        }
        return [
            ServerFunction(Shared.self) { make($0.account) },
            ServerFunction(Mine.self) { make($0.account) },
            ServerFunction(Brief.self) { make($0.account) },
            ServerFunction(Chat.self) { make($0.account, $0.history) },
        ]
    }

    // MARK: - Requests

    /// Returns a random request of a random caller.
    mutating func next() -> (Caller, Asked) {
        let caller = callers[Int.random(in: 0..<callers.count, using: &random)]
        let own = caller.account
        let question = "q-\(Int.random(in: 0..<Self.questions, using: &random))"
        let someone = Bool.random(using: &random) ? own : 1 - own
        let key = keys[someone].randomElement(using: &random)
        let thread = threads[someone].randomElement(using: &random)
        let asked: Asked? =
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<7:
                .call(
                    Self.functions.randomElement(using: &random) ?? "mine",
                    question,
                    key: newKey(of: own)
                )
            case 7..<12: .chat(newThread(of: own), question, key: newKey(of: own))
            case 12, 13: key.map { .findCall(key: $0) }
            case 14: cancellation(by: own)
            case 15, 16: thread.map { .readThread($0) }
            case 17: thread.map { .listMessages($0) }
            case 18: change(by: own)
            default: Self.reads.randomElement(using: &random).map { .read($0) }
            }
        return (caller, asked ?? .read("/v1/sync/pull?since=0&limit=50"))
    }

    private static let reads = [
        "/v1/account", "/v1/balance", "/v1/ledger?limit=20", "/v1/sync/pull?since=0&limit=50",
        "/v1/collections/%24threads/records?limit=20&order=-lastMessageAt",
        "/v1/collections/%24messages/records?limit=20&order=-order",
    ]

    /// Returns the cancellation of a call of the other account.
    private mutating func cancellation(by account: Int) -> Asked? {
        let theirs = keys[1 - account].filter { !keys[account].contains($0) }
        guard let key = theirs.randomElement(using: &random) else { return nil }
        spared[account].insert(key)
        return .cancelCall(key: key)
    }

    /// Returns a change of a thread of the other account.
    private mutating func change(by account: Int) -> Asked? {
        let theirs = threads[1 - account].filter { !threads[account].contains($0) }
        guard let thread = theirs.randomElement(using: &random) else { return nil }
        guard Bool.random(using: &random) else { return .push(RenameThread.name, thread) }
        gone[account].insert(thread)
        return .push(DeleteThread.name, thread)
    }

    /// Returns a key that the account has not used: sometimes one of the other account.
    private mutating func newKey(of account: Int) -> String {
        var key = newId().description
        if Int.random(in: 0..<4, using: &random) == 0,
            let theirs = keys[1 - account].randomElement(using: &random),
            !keys[account].contains(theirs), !spared[account].contains(theirs)
        {
            key = theirs
        }
        keys[account].append(key)
        return key
    }

    /// Returns a thread of the account, a new one, or the id of one of the other account.
    private mutating func newThread(of account: Int) -> Identifier {
        let known =
            switch Int.random(in: 0..<6, using: &random) {
            case 0: threads[1 - account].randomElement(using: &random)
            case 1: Identifier?.none
            default: threads[account].randomElement(using: &random)
            }
        let thread = known.flatMap { gone[account].contains($0) ? nil : $0 } ?? newId()
        if !threads[account].contains(thread) { threads[account].append(thread) }
        return thread
    }

    private mutating func newId() -> Identifier {
        count += 1
        return Identifier(
            at: Timestamp(millisecondsSince1970: 1_790_000_000_000 + count),
            using: &random
        )
    }

    // MARK: - Responses

    /// Sends a request.
    static func send(_ asked: Asked, as guest: Guest) async throws -> Reply {
        switch asked {
        case .call(let function, let q, let key):
            return try await guest.post(
                "/v1/functions/\(function)",
                #"{"input":{"q":"\#(q)"}}"#,
                key: key
            )
        case .chat(let thread, let q, let key):
            return try await guest.post(
                "/v1/functions/chat",
                #"{"input":{"q":"\#(q)"},"thread":"\#(thread)"}"#,
                key: key
            )
        case .findCall(let key): return try await guest.get("/v1/calls/\(key)")
        case .cancelCall(let key): return try await guest.send("DELETE", "/v1/calls/\(key)")
        case .readThread(let thread):
            return try await guest.get("/v1/collections/%24threads/records/\(thread)")
        case .listMessages(let thread):
            return try await guest.get(
                "/v1/collections/%24messages/records?where.thread=\(thread)&order=order"
            )
        case .push(let mutator, let thread):
            var arguments: [String: JSONValue] = ["id": .string(thread.description)]
            if mutator == RenameThread.name {
                arguments["title"] = .string("by \(guest.account.id)")
            }
            let operation = PushedOperation(
                id: Identifier(at: SystemWallClock().now()),
                sequence: 1,
                lane: "main",
                mutator: mutator,
                arguments: .object(arguments)
            )
            let device = "device-\(UUID().uuidString)"
            let request = PushRequest(device: device, operations: [operation])
            let body = String(decoding: try JSONEncoder().encode(request), as: UTF8.self)
            return try await guest.post("/v1/sync/push", body, key: nil)
        case .read(let path): return try await guest.get(path)
        }
    }

    /// Checks a response.
    ///
    /// - Returns: What is wrong with it, or `nil`.
    mutating func check(_ reply: Reply, to asked: Asked, of caller: Caller) -> String? {
        let (own, other) = (caller.account, 1 - caller.account)
        let stranger = callers.first { $0.account == other }?.guest.account.id
        if let stranger, reply.body.contains(stranger.description) {
            return "it names the other account"
        }
        switch asked {
        case .call(let function, let q, _): return check(reply, function, q, caller)
        case .chat(_, let q, _): return check(reply, Chat.name, q, caller)
        case .findCall(let key), .cancelCall(let key):
            return isMissing(reply, !keys[own].contains(key))
        case .readThread(let thread):
            return isMissing(reply, !threads[own].contains(thread))
        case .listMessages(let thread):
            let items = (try? reply.json)?["items"]
            guard reply.status == 200, case .array(let messages)? = items else {
                return "the list has the status \(reply.status)"
            }
            let isOwn = threads[own].contains(thread)
            return messages.isEmpty || isOwn ? nil : "it has messages of the other account"
        case .push, .read: return reply.status == 200 ? nil : "the status is \(reply.status)"
        }
    }

    private mutating func isMissing(_ reply: Reply, _ mustBe: Bool) -> String? {
        guard mustBe else { return nil }
        missing += 1
        return reply.status == 404 && reply.code == "not_found" ? nil : "it is not 404 not_found"
    }

    /// Checks the answer of a function: its run was made for the caller.
    private mutating func check(
        _ reply: Reply,
        _ function: String,
        _ q: String,
        _ caller: Caller
    ) -> String? {
        guard let result = try? reply.decode(FunctionResult<Made>.self) else {
            return "the call has the status \(reply.status)"
        }
        if result.cached { hits += 1 }
        let scope =
            switch function {
            case Shared.name: "\(function) \(q)"
            case Mine.name: "\(function) \(q) of \(caller.account)"
            default: "\(function) \(q) of \(caller.account) in session \(caller.session)"
            }
        let number = result.output.number
        let earlier = runs.updateValue(scope, forKey: number)
        guard let earlier, earlier != scope else { return nil }
        return "the run \(number) was made for '\(earlier)', and not for '\(scope)'"
    }

    /// The ids of the threads that each account has begun.
    var begun: [Set<Identifier>] { threads.map { Set($0) } }
}
