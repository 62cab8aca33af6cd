import Crypto
import Foundation
import SanguineModel

/// The text of a code that moves a guest to another device.
enum MoveCodeText {
    /// Digits and letters without 0, 1, I, L, O and U, which are mistaken for others.
    static let alphabet = Array("23456789ABCDEFGHJKMNPQRSTVWXYZ")
    /// The number of characters, which stand for 49 bits.
    ///
    /// Attempts are limited by address only. Ten thousand addresses that try ten codes a minute
    /// each find one of a thousand open codes within an hour with a probability of 1 in 98,000.
    static let length = 10

    /// Returns a code from the system's random numbers.
    static func random() -> String {
        String((0..<length).map { _ in alphabet[Int.random(in: 0..<alphabet.count)] })
    }

    /// Returns the code as it was issued, or `nil` if no code can be meant.
    static func canonical(_ text: String) -> String? {
        guard text.utf8.count <= 64 else { return nil }
        let code = text.uppercased().filter { $0 != " " && $0 != "-" }
        guard code.count == length, code.allSatisfy(alphabet.contains) else { return nil }
        return code
    }

    /// Returns the hash that identifies a stored code.
    ///
    /// It has a key, because so few codes could all be tried against a stolen database.
    static func hash(_ code: String, key: SymmetricKey) -> String {
        Base64URL.encode(
            HMAC<SHA256>.authenticationCode(for: Data("move code \(code)".utf8), using: key)
        )
    }
}

/// A code that was issued and can be redeemed, found by its hash.
struct OpenMoveCode: StoredDocument, Hashable {
    static let kind = DocumentKind.moveCode

    var hash: String
    var account: Identifier
    var expiresAt: Timestamp
    /// The device that redeemed the code; `nil` while it can be redeemed.
    var usedBy: String?
    /// The only era of the account in which the code can be redeemed; `nil` for 0.
    var era: Int64?

    var documentID: String { hash }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? { expiresAt }
}

/// The name of the only code of an account that can be redeemed.
struct CurrentMoveCode: StoredDocument, Hashable {
    static let kind = DocumentKind.moveCode

    var account: Identifier
    var hash: String
    var expiresAt: Timestamp

    static func id(_ account: Identifier) -> String { "account \(account)" }

    var documentID: String { Self.id(account) }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? { expiresAt }
}

/// The commands of codes that move a guest to another device.
struct MoveCommands: Sendable {
    /// The time for which a code can be redeemed.
    static let life = Duration.seconds(600)
    /// The number of codes that an account can request in the time for which one is valid.
    static let codesPerAccount = 10

    let identity: IdentityCommands
    private var now: Timestamp { identity.now }

    init(identity: IdentityCommands) { self.identity = identity }

    /// Stores a new code, and voids an earlier one.
    ///
    /// - Throws: The command refuses with `credentials_invalid` without a fresh proof.
    func issue(
        _ code: String,
        hash: String,
        _ account: Identifier,
        _ proof: FreshProof
    ) -> Command<MoveCode> {
        let pointer = CurrentMoveCode.key(CurrentMoveCode.id(account))
        let limit = AttemptLimit(
            count: Self.codesPerAccount,
            window: Self.life,
            id: "move codes \(account)"
        )
        return Command(keys: [.account(account), pointer, proof.key, limit.key]) {
            loaded throws(Problem) in
            guard let row = loaded.account(account), row.state == .active else {
                throw .noAccount
            }
            try proof.check(loaded, in: row, at: now)
            let counted = try limit.counting(loaded, at: now)
            let end = now + Self.life
            let open = OpenMoveCode(hash: hash, account: account, expiresAt: end, era: row.era)
            let current = CurrentMoveCode(account: account, hash: hash, expiresAt: end)
            let old = try loaded.document(CurrentMoveCode.self, CurrentMoveCode.id(account))
            let void = old.map { [Change.delete(OpenMoveCode.key($0.hash))] } ?? []
            return Decision(
                MoveCode(code: code, expiresAt: end),
                changes: void + [.put(open), .put(current), counted]
            )
        }
    }

    /// The result of redeeming a code.
    struct Redemption: Sendable {
        /// The empty guest that the device was before; `nil` for none.
        var left: Identifier?
    }

    /// Gives the device to the account of a code.
    ///
    /// A guest that the device leaves must be untouched, because nothing else opens it. A
    /// registered account has logins.
    ///
    /// - Parameters:
    ///   - hash: The hash of the code.
    ///   - account: The account of the code.
    ///   - device: The device.
    ///   - former: The account of the device, as found before; `nil` for a new device.
    /// - Returns: The command; `nil` as its result if the device was changed in the meantime, so
    ///   that the caller looks again.
    func redeem(
        _ hash: String,
        of account: Identifier,
        _ device: IdentityCommands.Device,
        from former: Identifier?
    ) -> Command<Redemption?> {
        var keys: [Key] = [.account(account), .device(device.id), OpenMoveCode.key(hash)]
        if let former, former != account {
            keys += [.account(former), .balance(former), .feed(former)]
        }
        return Command(keys: keys) { loaded throws(Problem) in
            guard var code = try loaded.document(OpenMoveCode.self, hash),
                code.account == account, now < code.expiresAt,
                let joined = loaded.account(account), joined.state == .active,
                joined.era == code.era ?? 0
            else { throw .moveCodeInvalid }
            let known = loaded.device(device.id)
            if let known, !known.hasSecret(hash: device.secretHash) { throw .otherSecret }
            if let user = code.usedBy {
                // The response may have been lost.
                guard user == device.id, known?.account == account else { throw .moveCodeInvalid }
                return Decision(Redemption(left: nil))
            }
            guard known?.account == former else { return Decision(nil) }
            code.usedBy = device.id
            let row = DeviceRow(
                id: device.id,
                secretHash: device.secretHash,
                account: account,
                createdAt: known?.createdAt ?? now,
                era: joined.era
            )
            var changes = [Change.put(code), .put(.device(row))]
            var left: Identifier?
            if let former, former != account, let guest = loaded.account(former),
                guest.state == .active, guest.profile.kind == .guest
            {
                guard isUntouched(guest, loaded) else { throw .deviceHasData }
                changes += try leave(guest, for: account, loaded)
                left = former
            }
            return Decision(Redemption(left: left), changes: changes)
        }
    }

    /// Makes an untouched guest an alias of the account, without a profile and a balance.
    ///
    /// A merge does the same. The grant of the guest is not added to the account's.
    private func leave(
        _ guest: AccountRow,
        for account: Identifier,
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        var alias = guest
        alias.state = .merged(into: account)
        alias.profile = guest.profile.anonymous(identity.settings)
        let left = LeftGuest(guest: guest.id, account: account)
        let changes: [Change] = [.put(.account(alias)), .put(left)]
        guard let balance = loaded.balance(guest.id) else { return changes }
        var draft = LedgerDraft(balance, now: now)
        try draft.debit(draft.balance.available, reason: "left guest")
        _ = draft.moveOut(reason: "left guest")
        return changes + [.delete(.balance(guest.id)), .delete(.feed(guest.id))] + draft.appended
    }

    /// Whether nothing has happened in a guest's account since it was created.
    private func isUntouched(_ guest: AccountRow, _ loaded: Loaded) -> Bool {
        guard guest.profile.kind == .guest, guest.profile.plan == .free,
            let balance = loaded.balance(guest.id)
        else { return false }
        // A new account's profile and balance have the numbers 1 and 2.
        return balance.head <= 2 && balance.held == 0
            && (loaded.feed(guest.id).map { $0.bytes == 0 && $0.records == 0 } ?? true)
    }
}

extension Problem {
    fileprivate static var otherSecret: Problem {
        Problem(
            .deviceSecretMismatch,
            "Send the secret of this device, or redeem the code with a new 'deviceId'."
        )
    }

    fileprivate static var deviceHasData: Problem {
        Problem(
            .identityTaken,
            """
            This device already is a guest with data, which would be lost. To keep it, register \
            the other device's account, then sign in to it here with POST /v1/sessions, which \
            merges this guest into it. To leave it, redeem the code with a new 'deviceId'.
            """
        )
    }
}
