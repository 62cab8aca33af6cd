import Foundation
package import SanguineAuthority
import SanguineModel
import SanguineTesting

/// A kind of turn in a game of the ledger.
///
/// Merges, purchases and refunds are further turns: a case here, its part of ``LedgerPlay``, and
/// its effect on the tokens of ``LedgerModel``.
package enum LedgerTurn: String, CaseIterable, Sendable {
    case spend = "spends"
    case grant = "grants"
    case expiringGrant = "grants with an expiry time"
    case hold = "holds"
    case capture = "captures"
    case release = "releases"
    case limit = "spending limits"
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

    private let authority: Authority
    /// The storage, if commands may be lost; only memory can forget them.
    private let mortal: MemoryStorage?
    private let clock = ManualWallClock(Timestamp(millisecondsSince1970: start))
    private var random: SplitMix64
    private var now = start
    private var accounts: [Identifier] = []
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
        authority = Authority(storage: storage, keys: SigningKeys(), clock: clock)
    }

    /// Plays the game.
    ///
    /// - Parameter commands: The number of turns.
    /// - Returns: A difference from the model; `nil` if there is none.
    package mutating func play(_ commands: Int) async -> String? {
        do {
            for _ in 0..<3 { try await open() }
            for _ in 0..<commands { try await turn() }
            for index in accounts.indices { try await compare(index) }
            let report = try await authority.verifyLedger()
            return report.differences.first.map { "\($0.account): \($0.finding)" }
        } catch let difference as Difference {
            return difference.text
        } catch {
            return "\(error)"
        }
    }

    private mutating func open() async throws {
        let secret = Base64URL.encode((0..<32).map { _ in UInt8.random(in: 0...255) })
        let device = "ledger-device-\(accounts.count)-\(Identifier(at: clock.now()))"
        let guest = try await authority.guest(GuestRequest(deviceId: device, deviceSecret: secret))
        accounts.append(guest.signedIn.account.id)
        models.append(LedgerModel())
        models[models.endIndex - 1].grant(authority.settings.grant)
    }

    private mutating func turn() async throws {
        now += Int64.random(in: 0...3_600_000, using: &random)
        clock.set(Timestamp(millisecondsSince1970: now))
        let index = Int.random(in: accounts.indices, using: &random)
        models[index].expire(at: now)
        let amount = Int64.random(in: 1...40, using: &random)
        switch Int.random(in: 0..<40, using: &random) {
        case 0..<12: try await spend(amount, index)
        case 12..<15: try await grant(amount, index)
        case 15..<20: try await grantExpiring(amount, index)
        case 20..<27: try await hold(amount, index)
        case 27..<32: try await settle(index)
        case 32: try await setLimit(index)
        case 33..<35: try await repeatLast()
        case 35..<37: try await die(amount, index)
        default: try await expire()
        }
        try await compare(index)
    }

    private mutating func compare(_ index: Int) async throws {
        models[index].expire(at: now)
        let balance = try await authority.balance(accounts[index])
        let model = models[index]
        guard balance.available == Int64(model.tokens.count), balance.held == Int64(model.held),
            balance.expiring ?? [] == model.expiring
        else {
            throw Difference(
                """
                the balance is \(balance.available), held \(balance.held), expiring \
                \(balance.expiring ?? []); the model has \(model.tokens.count), held \
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
            let answer = try await authority.spend(accounts[index], spend)
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
        _ = try await authority.grant(accounts[index], grant)
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
        _ = try await authority.grant(accounts[index], submission(request, "\(amount) \(moment)"))
        models[index].grant(amount, expiresAt: moment)
    }

    private mutating func hold(_ amount: Int64, _ index: Int) async throws {
        count(.hold)
        let seconds = Int.random(in: 1...86_400, using: &random)
        let request = HoldRequest(amount: amount, expiresIn: seconds)
        let expected = models[index].refusal(of: amount, at: now)
        do throws(Problem) {
            let hold = submission(request, "\(amount) \(seconds)")
            let answer = try await authority.hold(accounts[index], hold)
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
            _ = try await authority.capture(id, accounts[index], capture)
            models[index].settle(id, charging: charge, at: now)
        } else {
            count(.release)
            let release = submission((), "release \(id)")
            _ = try await authority.release(id, accounts[index], release)
            models[index].settle(id, charging: 0, at: now)
        }
    }

    private mutating func setLimit(_ index: Int) async throws {
        // Amounts count only while there is a limit, so it is set once.
        guard models[index].limit == nil else { return }
        count(.limit)
        let limit = Int64.random(in: 20...200, using: &random)
        let request = SpendingLimitRequest(perDay: limit, reason: "allowance")
        _ = try await authority.setSpendingLimit(
            accounts[index],
            submission(request, "limit \(limit)")
        )
        models[index].limit = limit
    }

    /// Sends a spend again that was answered: it must have the same answer and no effect.
    private mutating func repeatLast() async throws {
        guard let (index, spend, answer) = repeatable else { return }
        count(.repetition)
        let again = try await authority.spend(accounts[index], spend)
        guard again.replayed, again.stored == answer.stored else {
            throw Difference("a repetition has another answer: \(again)")
        }
    }

    /// Drops the changes of a command, as if the process had died before its commit.
    private mutating func die(_ amount: Int64, _ index: Int) async throws {
        guard let mortal else { return }
        count(.death)
        let before = try mortal.copy()
        let spend = submission(SpendRequest(amount: amount, reason: "lost"), "lost \(amount)")
        _ = try? await authority.spend(accounts[index], spend)
        try mortal.restore(before)
    }

    private mutating func expire() async throws {
        count(.upkeep)
        _ = try await authority.expireHolds()
        for index in models.indices {
            // The order of the releases does not matter: nothing is charged.
            for (id, hold) in models[index].holds where hold.expiresAt <= now {
                models[index].settle(id, charging: 0, at: now)
            }
        }
        _ = try await authority.expireGrants()
    }
}
