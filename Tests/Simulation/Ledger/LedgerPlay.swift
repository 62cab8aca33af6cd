import Foundation
package import SanguineAuthority
import SanguineModel
import SanguineTesting

/// A kind of turn in a game of the ledger.
package enum LedgerTurn: String, CaseIterable, Sendable {
    case spend = "spends"
    case grant = "grants"
    case expiringGrant = "grants with an expiry time"
    case hold = "holds"
    case capture = "captures"
    case release = "releases"
    case limit = "spending limits"
    case purchase = "purchases"
    case refund = "refunds and their reversals"
    case merge = "merges"
    case repetition = "repetitions"
    case death = "deaths"
    case upkeep = "expiries"
    case refusal = "refusals"
}

/// Plays random commands of the ledger, and compares each result with ``LedgerModel``.
///
/// Everything follows from the seed, except for ids.
package struct LedgerPlay {
    private static let start: Int64 = 1_763_752_719_000
    /// The number of registered accounts, which come first, and of guests.
    private static let players = (registered: 3, guests: 2)
    private static let password = "correct horse"
    private static let store = AppStoreSettings(
        bundleID: "com.example.app",
        roots: [],
        products: ["tokens": .tokens(25)]
    )

    private let authority: Authority
    /// The storage, if commands may be lost; only memory can forget them.
    private let mortal: MemoryStorage?
    private let clock = ManualWallClock(Timestamp(millisecondsSince1970: start))
    private var random: SplitMix64
    private var now = start
    private var players: [Identity] = []
    private var opened = 0
    private var models: [LedgerModel] = []
    private var repeatable: (account: Int, submission: Submission<SpendRequest>, answer: Answer)?
    private var lastKey = 0
    /// The number of turns, by kind.
    package private(set) var tally: [LedgerTurn: Int] = [:]

    /// A result that differs from the model.
    private struct Difference: Error {
        var text: String

        init(_ text: String) { self.text = text }
    }

    /// Creates a game over a storage that has no accounts yet.
    package init(seed: UInt64, storage: any Storage) {
        random = SplitMix64(seed: seed)
        mortal = storage as? MemoryStorage
        var settings = AuthoritySettings()
        // A hash that takes no time.
        settings.passwordCost.logRounds = 1
        settings.mergedGuestsPerAccount = 1_000_000
        authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
    }

    /// Plays the game.
    ///
    /// - Parameter commands: The number of turns.
    /// - Returns: A difference from the model; `nil` if there is none.
    package mutating func play(_ commands: Int) async -> String? {
        do {
            for index in 0..<Self.players.registered + Self.players.guests {
                let (identity, model) = try await newGuest()
                players.append(identity)
                models.append(model)
                if index < Self.players.registered { try await register(index) }
            }
            for _ in 0..<commands { try await turn() }
            for index in players.indices { try await compare(index) }
            let report = try await authority.verifyLedger()
            return report.differences.first.map { "\($0.account): \($0.finding)" }
        } catch let difference as Difference {
            return difference.text
        } catch {
            return "\(error)"
        }
    }

    private mutating func newGuest() async throws -> (Identity, LedgerModel) {
        opened += 1
        let secret = Base64URL.encode((0..<32).map { _ in UInt8.random(in: 0...255) })
        let device = "ledger-device-\(opened)-\(Identifier(at: clock.now()))"
        let guest = try await authority.guest(GuestRequest(deviceId: device, deviceSecret: secret))
        let token = guest.signedIn.session.accessToken
        var model = LedgerModel()
        model.grant(authority.settings.grant)
        return (try await authority.tokens.verify(token), model)
    }

    private static func email(_ index: Int) -> String { "player-\(index)@game.test" }

    /// Registers a guest by the code of its e-mail.
    private mutating func register(_ index: Int) async throws {
        let request = UpgradeRequest(email: Self.email(index), password: Self.password)
        _ = try await authority.upgrade(request, players[index], from: nil)
        let mail = try await authority.dueMail(limit: 1).due.first
        let lines = mail?.text.split(separator: "\n") ?? []
        guard let mail, let code = lines.first(where: { $0.count { $0.isNumber } == 8 }) else {
            throw Difference("the code was not sent")
        }
        let text = String(code.filter(\.isNumber))
        let signedIn = try await authority.verifyUpgrade(CodeRequest(code: text), players[index]).0
        players[index] = try await authority.tokens.verify(signedIn.session.accessToken)
        try await authority.mailSent(mail.id)
    }

    private mutating func turn() async throws {
        now += Int64.random(in: 0...3_600_000, using: &random)
        clock.set(Timestamp(millisecondsSince1970: now))
        let index = Int.random(in: players.indices, using: &random)
        models[index].expire(at: now)
        let amount = Int64.random(in: 1...40, using: &random)
        switch Int.random(in: 0..<48, using: &random) {
        case 0..<12: try await spend(amount, index)
        case 12..<15: try await grant(amount, index)
        case 15..<20: try await grantExpiring(amount, index)
        case 20..<27: try await hold(amount, index)
        case 27..<32: try await settle(index)
        case 32: try await setLimit(index)
        case 33..<35: try await repeatLast()
        case 35..<37: try await die(amount, index)
        case 37..<40: try await buy(index)
        case 40..<44: try await refund(index)
        case 44: try await merge()
        default: try await expire()
        }
        try await compare(index)
    }

    private mutating func compare(_ index: Int) async throws {
        models[index].expire(at: now)
        let balance = try await authority.balance(players[index].account)
        let model = models[index]
        guard balance.available == model.available, balance.held == Int64(model.held),
            balance.expiring ?? [] == model.expiring
        else {
            throw Difference(
                """
                the balance is \(balance.available), held \(balance.held), expiring \
                \(balance.expiring ?? []); the model has \(model.available), held \
                \(model.held), expiring \(model.expiring)
                """
            )
        }
    }

    private mutating func submission<Content: Sendable>(
        _ content: Content,
        _ meaning: String
    ) -> Submission<Content> {
        lastKey += 1
        return Submission(
            key: "k\(lastKey)",
            fingerprint: Fingerprint(meaning),
            content: .success(content)
        )
    }

    private mutating func count(_ turn: LedgerTurn) { tally[turn, default: 0] += 1 }
}

extension LedgerPlay {
    private mutating func spend(_ amount: Int64, _ index: Int) async throws {
        count(.spend)
        let spend = submission(SpendRequest(amount: amount, reason: "tea"), "spend \(amount)")
        let expected = models[index].spend(amount, at: now)
        do throws(Problem) {
            let answer = try await authority.spend(players[index].account, spend)
            repeatable = (index, spend, answer)
            try Self.check(nil, expected)
        } catch {
            count(.refusal)
            try Self.check(error, expected)
        }
    }

    private static func check(_ problem: Problem?, _ expected: LedgerModel.Refusal?) throws(Problem)
    {
        let code: ProblemCode? =
            switch expected {
            case nil: nil
            case .limit: .spendingLimitReached
            case .insufficient: .insufficientTokens
            }
        guard problem?.code == code else {
            throw problem ?? Problem(.internalFault, "\(code?.rawValue ?? "") was expected")
        }
    }

    private mutating func grant(_ amount: Int64, _ index: Int) async throws {
        count(.grant)
        let grant = submission(GrantRequest(amount: amount, reason: "gift"), "grant \(amount)")
        _ = try await authority.grant(players[index].account, grant)
        models[index].grant(amount)
    }

    private mutating func grantExpiring(_ amount: Int64, _ index: Int) async throws {
        count(.expiringGrant)
        // Whole days, so that the number of different moments stays below the limit.
        let day: Int64 = 86_400_000
        let moment = (now / day + Int64.random(in: 1...12, using: &random)) * day
        let request = GrantRequest(
            amount: amount,
            reason: "gift",
            expiresAt: Timestamp(millisecondsSince1970: moment)
        )
        let grant = submission(request, "\(amount) \(moment)")
        _ = try await authority.grant(players[index].account, grant)
        models[index].grant(amount, expiresAt: moment)
    }

    private mutating func hold(_ amount: Int64, _ index: Int) async throws {
        count(.hold)
        let seconds = Int.random(in: 1...86_400, using: &random)
        let request = HoldRequest(amount: amount, expiresIn: seconds)
        let expected = models[index].refusal(of: amount, at: now)
        do throws(Problem) {
            let hold = submission(request, "\(amount) \(seconds)")
            let answer = try await authority.hold(players[index].account, hold)
            try Self.check(nil, expected)
            guard
                let id = try? JSONDecoder().decode(
                    HoldAnswer.self,
                    from: Data(answer.stored.body)
                ).hold.id
            else { throw Problem(.internalFault, "the answer of a hold cannot be read") }
            let end = now + Int64(seconds) * 1_000
            models[index].hold(amount, as: id, until: end, at: now)
        } catch {
            count(.refusal)
            try Self.check(error, expected)
        }
    }

    private mutating func settle(_ index: Int) async throws {
        let open = models[index].holds.sorted { $0.value.expiresAt < $1.value.expiresAt }
        guard !open.isEmpty else { return }
        let (id, hold) = open[Int.random(in: open.indices, using: &random)]
        let charge = Int64.random(in: 0...Int64(hold.tokens.count), using: &random)
        if Bool.random(using: &random) {
            count(.capture)
            let capture = submission(CaptureRequest(amount: charge), "capture \(id) \(charge)")
            _ = try await authority.capture(id, players[index].account, capture)
            models[index].settle(id, charging: charge, at: now)
        } else {
            count(.release)
            let release = submission((), "release \(id)")
            _ = try await authority.release(id, players[index].account, release)
            models[index].settle(id, charging: 0, at: now)
        }
    }

    private mutating func buy(_ index: Int) async throws {
        count(.purchase)
        let quantity = Int64.random(in: 1...3, using: &random)
        let id = "t\(lastKey + 1)"
        try await send(id, ["quantity": .integer(quantity)], index)
        models[index].buy(25 * quantity, as: id)
    }

    /// Refunds a part of a purchase, or a different part, or takes the refund back.
    private mutating func refund(_ index: Int) async throws {
        let ids = models[index].purchases.keys.sorted()
        guard !ids.isEmpty else { return }
        count(.refund)
        let id = ids[Int.random(in: ids.indices, using: &random)]
        let part = max(0, Int64.random(in: -50_000...100_000, using: &random))
        let refund: [String: JSONValue] = [
            "revocationDate": .integer(now), "revocationPercentage": .integer(part),
        ]
        try await send(id, part > 0 ? refund : [:], index)
        models[index].refund(part, of: id)
    }

    /// Sends a transaction as the App Store states it now, without a signature.
    private mutating func send(
        _ id: String,
        _ members: [String: JSONValue],
        _ index: Int
    ) async throws {
        let payload: [String: JSONValue] = [
            "transactionId": .string(id), "productId": "tokens",
            "purchaseDate": .integer(now), "signedDate": .integer(now),
        ]
        let json = JSONValue.object(payload.merging(members) { $1 })
        let transaction = try JSONDecoder().decode(
            AppStoreTransaction.self,
            from: Data(json.encoded)
        )
        _ = try await authority.purchase(
            players[index].account,
            verified: submission(transaction, "\(json)"),
            Self.store
        )
    }

    /// Merges a guest into a registered account; another guest takes its place.
    private mutating func merge() async throws {
        count(.merge)
        let index = Int.random(in: 0..<Self.players.registered, using: &random)
        let guest = Int.random(in: Self.players.registered..<players.count, using: &random)
        models[guest].expire(at: now)
        models[index].expire(at: now)
        let request = SessionRequest(email: Self.email(index), password: Self.password)
        let answer = try await authority.signIn(request, as: players[guest], from: nil)
        let expected = models[guest].available + Int64(models[guest].held)
        guard answer.merged?.balances == expected else {
            throw Difference("the merge moved \(answer.merged?.balances ?? 0) of \(expected)")
        }
        models[index].merge(models[guest])
        // The account answers the guest's requests.
        if repeatable?.account == guest { repeatable?.account = index }
        let (identity, model) = try await newGuest()
        (players[guest], models[guest]) = (identity, model)
        try await compare(index)
        try await compare(guest)
    }

    private mutating func setLimit(_ index: Int) async throws {
        // Amounts count only while there is a limit, so it is set once.
        guard models[index].limit == nil else { return }
        count(.limit)
        let limit = Int64.random(in: 20...200, using: &random)
        let request = SpendingLimitRequest(perDay: limit, reason: "allowance")
        _ = try await authority.setSpendingLimit(
            players[index].account,
            submission(request, "limit \(limit)")
        )
        models[index].limit = limit
    }

    /// Sends a spend again that was answered: it must have the same answer and no effect.
    private mutating func repeatLast() async throws {
        guard let (index, spend, answer) = repeatable else { return }
        count(.repetition)
        let again = try await authority.spend(players[index].account, spend)
        // After a merge, the number of the feed is another one.
        guard again.replayed, again.stored.status == answer.stored.status,
            again.stored.body == answer.stored.body
        else {
            throw Difference("a repetition has another answer: \(again)")
        }
    }

    /// Drops the changes of a command, as if the process had died before its commit.
    private mutating func die(_ amount: Int64, _ index: Int) async throws {
        guard let mortal else { return }
        count(.death)
        let before = try mortal.copy()
        let spend = submission(SpendRequest(amount: amount, reason: "lost"), "lost \(amount)")
        _ = try? await authority.spend(players[index].account, spend)
        try mortal.restore(before)
    }

    private mutating func expire() async throws {
        count(.upkeep)
        _ = try await authority.expireHolds()
        for index in models.indices {
            // The server's order, because the first released tokens cover a debt.
            let due = models[index].holds.filter { $0.value.expiresAt <= now }
                .sorted { ($0.value.expiresAt, $0.key) < ($1.value.expiresAt, $1.key) }
            for (id, _) in due { models[index].settle(id, charging: 0, at: now) }
        }
        _ = try await authority.expireGrants()
    }
}
