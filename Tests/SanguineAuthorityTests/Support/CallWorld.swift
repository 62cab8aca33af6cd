import Foundation
import SanguineModel
import SanguineTesting

@testable import SanguineAuthority

typealias DelayClock = SanguineTesting.ManualClock

/// A process that runs calls, on a storage that may outlive it.
final class CallWorld: Sendable {
    /// The reports of the runner.
    struct Reported: Sendable {
        var ended: [String] = []
        var origins: [CallReply.Origin] = []
        var firstParts: [Duration] = []
        var notStored = 0
        var left = 0
    }

    let wall: ManualClock
    let delay = DelayClock()
    let storage: MortalStorage
    let authority: Authority
    let runner: CallRunner
    let reported = WatchedState(Reported())

    init(
        _ functions: ScriptedFunction...,
        over storage: MemoryStorage = MemoryStorage(),
        wall: ManualClock = ManualClock(),
        settings: AuthoritySettings = AuthoritySettings(),
        limits: CallRunner.Limits = CallRunner.Limits(running: 64)
    ) {
        self.wall = wall
        self.storage = MortalStorage(over: storage)
        authority = Authority(
            storage: self.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: wall
        )
        var reports = CallRunner.Reports()
        reports.ended = { [reported] _, outcome in reported.withLock { $0.ended.append(outcome) } }
        reports.answered = { [reported] _, origin in reported.withLock { $0.origins.append(origin) }
        }
        reports.began = { [reported] _, time in reported.withLock { $0.firstParts.append(time) } }
        reports.notStored = { [reported] _, _ in reported.withLock { $0.notStored += 1 } }
        reports.left = { [reported] _ in reported.withLock { $0.left += 1 } }
        runner = CallRunner(
            authority: authority,
            functions: { functions },
            limits: limits,
            expiryInterval: .seconds(1),
            delay: delay,
            reports: reports
        )
    }

    /// Returns when this many waits of streams are active: one for the pings of each reader, and
    /// one for the writer of each run.
    func waitForWaits(_ count: Int) async throws {
        try await eventually("\(count) waits are active") { [runner] in
            runner.services.deadlines.count == count
        }
    }

    // MARK: - Accounts

    /// Creates an account with this balance, and a session.
    func account(
        _ number: UInt64 = 1,
        tokens: Int64 = 100,
        timeZone: String = "UTC"
    ) async throws -> Identity {
        let account = Identifier.numbered(number)
        var world = World()
        world.open(account, granted: tokens, timeZone: timeZone, at: wall.now())
        let rows = world.rows.values.map(Change.put)
        let transfers = (world.transfers[account] ?? []).map(Change.append)
        try await store(rows + transfers)
        return Identity(account: account, session: .numbered(number + 1_000_000))
    }

    /// Changes the profile of an account.
    func change(_ account: Identifier, _ body: @Sendable (inout Account) -> Void) async throws {
        guard var row = try storage.inner.loadNow([.account(account)]).account(account) else {
            return
        }
        body(&row.profile)
        try await store([.put(.account(row))])
    }

    private func store(_ changes: [Change]) async throws {
        let command = Command(keys: []) { _ throws(Problem) in Decision((), changes: changes) }
        _ = try storage.inner.performNow(command).get()
    }

    func balance(_ identity: Identity) async throws -> Balance {
        try await authority.balance(identity.account)
    }

    /// Returns the used units of a quota.
    func used(_ identity: Identity, of name: String = "readings") async throws -> Int64 {
        let quotas = try await authority.quotas(identity.account).0.items
        return quotas.first { $0.name == name }?.used ?? -1
    }

    /// Returns whether every balance is the sum of its entries.
    func isSound() async throws -> Bool {
        try await storage.inner.verifyLedger().differences.isEmpty
    }

    // MARK: - Calls

    /// Calls a function.
    func call(
        _ who: Identity,
        _ key: String,
        _ input: JSONValue = [:],
        of name: String = "f",
        as reader: AnswerForm = .plain,
        from address: String? = nil,
        in thread: Identifier? = nil
    ) async throws(Problem) -> CallReply {
        let request = FunctionRequest(input: input, thread: thread)
        let text = String(decoding: ResponseEncoder.encode(request), as: UTF8.self)
        return try await runner.call(
            name,
            who,
            from: address,
            Submission(
                key: key,
                fingerprint: Fingerprint("call", name, text),
                content: .success(request)
            ),
            as: reader
        )
    }

    /// Calls a function and waits for the answer in one piece.
    func answer(
        _ who: Identity,
        _ key: String,
        _ input: JSONValue = [:],
        of name: String = "f",
        in thread: Identifier? = nil
    ) async -> CallAnswer {
        do throws(Problem) {
            guard
                case .answer(let answer, let origin) = try await call(
                    who,
                    key,
                    input,
                    of: name,
                    in: thread
                )
            else { return CallAnswer(status: 0, body: .null) }
            return CallAnswer(answer, origin)
        } catch {
            return CallAnswer(status: error.status, body: .null, problem: error)
        }
    }

    /// Calls a function and reads its answer in parts.
    func stream(
        _ who: Identity,
        _ key: String,
        _ input: JSONValue = [:],
        of name: String = "f",
        after index: Int64? = nil,
        in thread: Identifier? = nil
    ) async throws -> CallEventStream {
        let form = AnswerForm.parts(after: index)
        let reply = try await call(who, key, input, of: name, as: form, in: thread)
        guard case .events(let events, _) = reply else { throw NoEvents() }
        return events
    }

    /// Finds a call by its key and reads it in parts.
    func find(
        _ who: Identity,
        _ key: String,
        after index: Int64? = nil
    ) async throws -> CallEventStream {
        let position = OperationPosition(account: who.account, key: key)
        let reply = try await runner.find(position, from: nil, as: .parts(after: index))
        guard case .events(let events, _) = reply else { throw NoEvents() }
        return events
    }

    /// Cancels a call.
    func cancel(_ who: Identity, _ key: String) async throws(Problem) -> CallCancellation {
        try await runner.cancel(OperationPosition(account: who.account, key: key))
    }

    struct NoEvents: Error {}
}

/// The answer to a call.
struct CallAnswer: Sendable {
    var status: Int
    var body: JSONValue
    var isReplayed = false
    var origin: CallReply.Origin?
    /// The refusal, if there was no answer.
    var problem: Problem?

    init(status: Int, body: JSONValue, problem: Problem? = nil) {
        self.status = status
        self.body = body
        self.problem = problem
    }

    init(_ answer: Answer, _ origin: CallReply.Origin) {
        status = answer.stored.status
        body = JSONValue(bytes: answer.stored.body)
        isReplayed = answer.replayed
        self.origin = origin
    }

    var output: JSONValue? { body["output"] }
    var charged: Int64? { body["charged"]?.integer }
    var code: String? { problem?.code.rawValue ?? body["code"]?.string }
    var isFromCache: Bool { if case .cache = origin { true } else { false } }
}

extension JSONValue {
    /// Parses JSON; `null` if it is invalid.
    init(bytes: [UInt8]) {
        self = (try? JSONParser.parse(bytes, limits: .init(values: .max)).value) ?? .null
    }
}

/// The events that a reader of a stream has received.
struct Heard: Sendable, Equatable {
    var texts: [String] = []
    /// The index of the first text.
    var first: Int64?
    /// Whether each text had the next index.
    var isInOrder = true
    var endIndex: Int64?
    var status: Int?
    var body: JSONValue = .null
    /// The problem of a temporary end.
    var broken: ProblemCode?

    var code: String? { body["code"]?.string }
    /// The index after the last text.
    var next: Int64 { (first ?? 0) + Int64(texts.count) }

    /// Adds an event.
    mutating func take(_ event: CallEvent) {
        switch event {
        case .idle: break
        case .parts(let index, let texts):
            if first == nil { first = index }
            isInOrder = isInOrder && index == next && endIndex == nil
            self.texts += texts
        case .end(let index, .success(let answer)):
            isInOrder = isInOrder && endIndex == nil
            endIndex = index
            status = answer.status
            body = JSONValue(bytes: answer.body)
        case .end(_, .failure(let problem)):
            broken = problem.code
        }
    }
}

extension CallEventStream {
    /// Reads until it has this many texts in total, or to the end.
    func read(_ count: Int = .max, into heard: Heard = Heard()) async throws -> Heard {
        try await within(TestingLimits.wait, "\(count) parts of a stream") { [self] in
            var heard = heard
            while heard.texts.count < count, let event = await next() { heard.take(event) }
            return heard
        }
    }
}
