import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport

/// A person whose requests are cut off by kills of the server, and sent again after its restart.
///
/// Each person follows a script, one request at a time. A step is finished when its answer has
/// arrived; otherwise the next server receives the same request again.
struct IdentityLife: Sendable {
    /// The end of a script.
    enum Kind: String, CaseIterable, Sendable {
        case upgrade, merge, purchase, deletion
    }

    /// A step of a script.
    enum Step: String, Sendable {
        case signIn, write, spend, buy, buyAgain, upgrade, verify, enter, signInGuest
        case preview, merge, mergeAtSignIn, delete

        /// Whether it is one of those whose interruption the game is about.
        var isCritical: Bool {
            switch self {
            case .buy, .buyAgain, .upgrade, .verify, .merge, .mergeAtSignIn, .delete: true
            case .signIn, .write, .spend, .enter, .signInGuest, .preview: false
            }
        }
    }

    /// A request under an idempotency key, with its answer.
    struct Sent: Sendable {
        let path: String
        let key: String
        let json: any Encodable & Sendable
        let body: Data
        /// Whether a merged guest has sent it.
        var isOfGuest = false
    }

    /// An account of the person.
    struct Holder: Sendable {
        let device: String
        var account: Identifier
        var session: Session
        var tokens: Int64
        var records: Set<String> = []
        var sent: [Sent] = []
    }

    /// The tokens that an account begins with.
    static let grant: Int64 = 100
    /// The tokens of a purchase.
    static let purchase: Int64 = 100
    /// The tokens of a spend.
    static let spend: Int64 = 7

    let number: Int
    let kind: Kind
    private let store: TestAppStore
    private let script: [Step]
    private(set) var position = 0
    /// The account, and then the guest that is merged into it.
    private(set) var holders: [Holder] = []
    /// The steps that a kill cut off.
    private(set) var cut: [Step] = []
    /// Whether the current step was sent before.
    private var isRepetition = false
    private var usedCodes: Set<String> = []
    private var mergeToken = ""

    /// The number of accounts, purchases and spends.
    private(set) var accounts: Int64 = 0
    private(set) var purchases: Int64 = 0
    private(set) var spends: Int64 = 0

    init(number: Int, kind: Kind, store: TestAppStore) {
        (self.number, self.kind, self.store) = (number, kind, store)
        let registers: [Step] = [.upgrade, .verify, .enter]
        let isOdd = !(number / Kind.allCases.count).isMultiple(of: 2)
        script =
            switch kind {
            case .upgrade: [.signIn, .write, .spend] + registers + [.spend]
            case .merge:
                [.signIn, .write] + registers + [.signInGuest, .write, .spend, .buy]
                    + (isOdd ? [.preview, .merge] : [.mergeAtSignIn]) + [.spend]
            case .purchase: [.signIn, .buy, .write, .buyAgain, .spend]
            case .deletion: [.signIn, .write, .buy] + (isOdd ? registers : []) + [.delete]
            }
    }

    /// Whether the script is finished.
    var isOver: Bool { position == script.count }
    /// Whether the account was deleted.
    var isDeleted: Bool { kind == .deletion && isOver }
    /// Whether the account has an e-mail address and a password.
    var isRegistered: Bool { script.prefix(position).contains(.verify) }
    var email: String { "person-\(number)@example.org" }
    var password: String { "the password of person \(number)" }

    private var step: Step { script[position] }
    private var key: String { "key-\(number)-\(position)" }

    // MARK: - Following the script

    /// Follows the script until it is finished or the server is dead.
    mutating func live(on server: KilledServer, _ mail: MailFolder) async throws {
        while !isOver {
            do {
                try await take(step, server, mail)
            } catch let error as Unexpected {
                throw error
            } catch {
                guard server.isKilled else { throw error }
                cut.append(step)
                isRepetition = true
                return
            }
            position += 1
            isRepetition = false
        }
    }

    private mutating func take(
        _ step: Step,
        _ server: KilledServer,
        _ mail: MailFolder
    ) async throws {
        switch step {
        case .signIn: try await signIn("a-device-of-person-\(number)", server)
        case .signInGuest: try await signIn("a-guest-of-person-\(number)", server)
        case .write: try await write(server)
        case .spend: try await spend(server)
        case .buy: try await buy(server)
        case .buyAgain: try await buyAgain(server)
        case .upgrade: try await upgrade(server)
        case .verify: try await verify(server, mail)
        case .enter: try await enter(server)
        case .preview: try await preview(server)
        case .merge: try await merge(server)
        case .mergeAtSignIn: try await mergeAtSignIn(server)
        case .delete: try await delete(server)
        }
    }

    private mutating func signIn(_ device: String, _ server: KilledServer) async throws {
        let body = GuestRequest(deviceId: device, deviceSecret: String(repeating: "A", count: 43))
        let answer = try await post("/v1/accounts/guest", body, server)
        try expect(answer, [200, 201])
        let signedIn: SignedIn = try answer.decode()
        holders.append(
            Holder(
                device: device,
                account: signedIn.account.id,
                session: signedIn.session,
                tokens: Self.grant
            )
        )
        accounts += 1
    }

    private mutating func write(_ server: KilledServer) async throws {
        // The same ids, at whichever server.
        var random = SplitMix64(seed: UInt64(number) << 8 | UInt64(position))
        let moment = Timestamp(millisecondsSince1970: 1_790_000_000_000)
        let ids = (0..<3).map { _ in Identifier(at: moment, using: &random) }
        let records = ids.map { "note-\(number)-\($0)" }
        let operations = zip(ids, records).enumerated().map { index, pair in
            PushedOperation(
                id: pair.0,
                sequence: Int64(index + 1),
                lane: pair.1,
                mutator: "record.create",
                arguments: .object([
                    "collection": "notes", "id": .string(pair.1),
                    "fields": .object(["text": .string("of person \(number)")]),
                ])
            )
        }
        let body = PushRequest(device: holders[holders.count - 1].device, operations: operations)
        let answer = try await post("/v1/sync/push", body, server, token: token)
        try expect(answer, [200])
        let results = try answer.decode(PushAnswer.self).results
        guard
            results.allSatisfy({ $0.status == .applied || isRepetition && $0.status == .replayed })
        else { throw unexpected(answer) }
        holders[holders.count - 1].records.formUnion(records)
    }

    private mutating func spend(_ server: KilledServer) async throws {
        let body = SpendRequest(amount: Self.spend, reason: key)
        try await send("/v1/spend", body, server)
        holders[holders.count - 1].tokens -= Self.spend
        spends += 1
    }

    private mutating func buy(_ server: KilledServer) async throws {
        let answer = try await send("/v1/purchases", try transaction(), server)
        guard try answer.decode(PurchaseAnswer.self).credited == Self.purchase else {
            throw unexpected(answer)
        }
        holders[holders.count - 1].tokens += Self.purchase
        purchases += 1
    }

    /// Sends the transaction under another key, as another device does.
    private mutating func buyAgain(_ server: KilledServer) async throws {
        let answer = try await send("/v1/purchases", try transaction(), server)
        let balance = try answer.decode(PurchaseAnswer.self).balance
        guard balance.available == holders[holders.count - 1].tokens else {
            throw unexpected(answer)
        }
    }

    private func transaction() throws -> PurchaseRequest {
        let payload = store.transaction("transaction-\(number)", of: "tokens")
        return PurchaseRequest(signedTransaction: try store.sign(payload))
    }

    private func upgrade(_ server: KilledServer) async throws {
        let body = UpgradeRequest(email: email, password: password)
        let answer = try await post("/v1/accounts/upgrade", body, server, token: token)
        try expect(answer, [202])
    }

    /// Verifies the newest code; codes of requests whose answers were lost may arrive before it.
    private mutating func verify(_ server: KilledServer, _ mail: MailFolder) async throws {
        // A registration ends the session, so that its repetition is refused.
        var maySucceedUnseen = isRepetition
        while true {
            let code = try await code(server, mail)
            let body = CodeRequest(code: code)
            let answer = try await post("/v1/accounts/verify", body, server, token: token)
            switch answer.status {
            case 200:
                let signedIn: SignedIn = try answer.decode()
                try expectOwn(signedIn, answer)
                holders[0].session = signedIn.session
                return
            case 401 where maySucceedUnseen && answer.code == .sessionEnded: return
            case 422 where answer.code == .verificationFailed:
                usedCodes.insert(code)
                maySucceedUnseen = false
            default: throw unexpected(answer)
            }
        }
    }

    private func code(_ server: KilledServer, _ mail: MailFolder) async throws -> String {
        var found: String?
        try await eventually(
            "a new code for \(email)",
            within: TestingLimits.longestWait
        ) {
            found = mail.codes(for: email).first { !usedCodes.contains($0) }
            return found != nil || server.isKilled
        }
        guard let found, !server.isKilled else { throw KilledServer.Killed() }
        return found
    }

    private mutating func enter(_ server: KilledServer) async throws {
        let body = SessionRequest(email: email, password: password)
        let answer = try await post("/v1/sessions", body, server)
        try expect(answer, [200])
        let signedIn: SignedIn = try answer.decode()
        try expectOwn(signedIn, answer)
        holders[0].session = signedIn.session
    }

    // MARK: - Merge

    private mutating func preview(_ server: KilledServer) async throws {
        let body = SessionRequest(email: email, password: password)
        let path = "/v1/accounts/merge/preview"
        let answer = try await post(path, body, server, token: token)
        try expect(answer, [200])
        let offer: MergeOffer = try answer.decode()
        let all = holders.reduce(0) { $0 + $1.tokens }
        guard offer.preview.records == holders[1].records.count,
            offer.preview.tokens.available == all, offer.preview.guest == holders[1].account
        else { throw unexpected(answer) }
        mergeToken = offer.mergeToken
    }

    private mutating func merge(_ server: KilledServer) async throws {
        let body = MergeRequest(mergeToken: mergeToken)
        try finishMerge(try await post("/v1/accounts/merge", body, server, token: token))
    }

    private mutating func mergeAtSignIn(_ server: KilledServer) async throws {
        let body = SessionRequest(email: email, password: password)
        try finishMerge(try await post("/v1/sessions", body, server, token: token))
    }

    private mutating func finishMerge(_ answer: API.Answer) throws {
        try expect(answer, [200])
        let signedIn: SignedIn = try answer.decode()
        try expectOwn(signedIn, answer)
        let guest = holders[1]
        guard let merged = signedIn.merged, merged.from == guest.account,
            merged.records == guest.records.count, merged.balances == guest.tokens
        else { throw unexpected(answer) }
        holders.removeLast()
        holders[0].session = signedIn.session
        holders[0].tokens += guest.tokens
        holders[0].records.formUnion(guest.records)
        holders[0].sent += guest.sent.map { sent in
            var sent = sent
            sent.isOfGuest = true
            return sent
        }
    }

    private func delete(_ server: KilledServer) async throws {
        let body = DeletionRequest(refreshToken: holders[0].session.refreshToken)
        let answer = try await send(.DELETE, "/v1/account", body, server, token: token)
        if isRepetition, [401, 404].contains(answer.status) { return }
        try expect(answer, [200])
    }

    // MARK: - Requests

    private var token: String { holders[holders.count - 1].session.accessToken }

    /// Sends a request of the newest account under the key of the step.
    @discardableResult
    private mutating func send(
        _ path: String,
        _ json: some Encodable & Sendable,
        _ server: KilledServer
    ) async throws -> API.Answer {
        let answer = try await post(path, json, server, token: token, key: key)
        try expect(answer, [200])
        let sent = Sent(path: path, key: key, json: json, body: answer.body)
        holders[holders.count - 1].sent.append(sent)
        return answer
    }

    private func post(
        _ path: String,
        _ json: any Encodable & Sendable,
        _ server: KilledServer,
        token: String? = nil,
        key: String? = nil
    ) async throws -> API.Answer {
        try await send(.POST, path, json, server, token: token, key: key)
    }

    /// Sends a request, again for as long as the server asks for that.
    private func send(
        _ method: HTTPMethod,
        _ path: String,
        _ json: (any Encodable & Sendable)?,
        _ server: KilledServer,
        token: String? = nil,
        key: String? = nil
    ) async throws -> API.Answer {
        var last: API.Answer?
        try await eventually(
            "an answer of \(path) that is not to be repeated",
            within: TestingLimits.longestWait
        ) {
            let answer = try await server.api.send(
                method,
                path,
                token: token,
                key: key,
                // Every person has an address, so that none is limited because of the others.
                headers: [("X-Forwarded-For", "10.0.\(number / 250).\(number % 250 + 1)")],
                json: json
            )
            server.count()
            last = answer
            return answer.header("Retry-After") == nil
        }
        guard let last else { throw Unexpected("There is no answer of \(path).") }
        return last
    }

    private func expect(_ answer: API.Answer, _ statuses: [Int]) throws {
        guard statuses.contains(answer.status) else { throw unexpected(answer) }
    }

    private func expectOwn(_ signedIn: SignedIn, _ answer: API.Answer) throws {
        guard signedIn.account.id == holders[0].account, signedIn.account.kind == .registered,
            signedIn.account.email == email
        else { throw unexpected(answer) }
    }

    private func unexpected(_ answer: API.Answer) -> Unexpected {
        let step = isOver ? "the check" : step.rawValue
        let text = "\(kind.rawValue) \(number) at \(step): \(answer.status) \(answer.text)"
        return Unexpected(text)
    }

    // MARK: - Checking

    /// Checks a finished life: its balance, its records, and the repetition of all its requests.
    mutating func check(on server: KilledServer) async throws {
        guard !isDeleted else { return try await checkDeletion(server) }
        if isRegistered { try await enter(server) }
        for sent in holders[0].sent {
            let answer = try await post(sent.path, sent.json, server, token: token, key: sent.key)
            guard answer.status == 200, answer.isReplayed,
                sent.isOfGuest || answer.body == sent.body
            else { throw unexpected(answer) }
        }
        let read = try await send(.GET, "/v1/balance", nil, server, token: token)
        let balance: Balance = try read.decode()
        guard balance.available == holders[0].tokens, balance.held == 0 else {
            throw Unexpected("\(holders[0].tokens) tokens are expected. \(unexpected(read))")
        }
        let path = "/v1/sync/pull?since=0&limit=500"
        let pulled = try await send(.GET, path, nil, server, token: token)
        let changes = try pulled.decode(PullAnswer.self).changes
        let notes = changes.filter { $0.collection == "notes" && !$0.deleted }.map(\.id.text)
        guard notes.count == holders[0].records.count, Set(notes) == holders[0].records else {
            throw Unexpected("Other records are expected. \(unexpected(pulled))")
        }
    }

    private func checkDeletion(_ server: KilledServer) async throws {
        let read = try await send(.GET, "/v1/account", nil, server, token: token)
        try expect(read, [401, 404])
        guard isRegistered else { return }
        let body = SessionRequest(email: email, password: password)
        try expect(try await post("/v1/sessions", body, server), [401, 404])
    }
}

/// A server that is killed after a number of answers.
struct KilledServer: Sendable {
    /// The error of a wait that the kill ended.
    struct Killed: Error {}

    let api: API
    let answers = Watched(0)
    private let killed = Watched(false)

    init(_ api: API) { self.api = api }

    /// Whether the server is dead, or about to be.
    var isKilled: Bool { killed.value }

    /// Counts an answer.
    func count() { answers.update { $0 += 1 } }

    /// Records the kill, before the signal is sent.
    func kill() { killed.update { $0 = true } }
}
