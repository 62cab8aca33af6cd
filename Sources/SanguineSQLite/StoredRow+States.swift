import Foundation
import SanguineAuthority
import SanguineModel

// Rows with columns that represent cases. A stored number never changes its meaning.

extension AccountRow: StoredRow {
    static let table = "accounts"
    static let keyColumns = ["id"]
    static let valueColumns = [
        "kind", "email", "time_zone", "language", "display_name", "plan", "settings",
        "created_at", "seq", "state", "merged_into", "plan_expires_at", "era",
    ]

    func bind(to statement: SQLStatement) throws(SQLFailure) {
        statement.bind(profile.id)
        statement.bind(profile.kind.rawValue)
        statement.bind(profile.email)
        statement.bind(profile.timeZone)
        statement.bind(profile.language)
        statement.bind(profile.displayName)
        statement.bind(profile.plan.rawValue)
        statement.bind(profile.settings.encoded)
        statement.bind(profile.createdAt)
        statement.bind(seq)
        let (number, target): (Int64, Identifier?) =
            switch state {
            case .active: (0, nil)
            case .merged(let target): (1, target)
            case .deleted: (2, nil)
            }
        statement.bind(number)
        statement.bind(target)
        statement.bind(planExpiresAt)
        statement.bind(era)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        guard let kind = Account.Kind(rawValue: statement.text(1)) else {
            throw .unreadable("An account's kind")
        }
        guard let plan = Account.Plan(rawValue: statement.text(6)) else {
            throw .unreadable("An account's plan")
        }
        let profile = Account(
            id: try statement.identifier(0),
            kind: kind,
            email: statement.optionalText(2),
            timeZone: statement.text(3),
            language: statement.text(4),
            displayName: statement.optionalText(5),
            plan: plan,
            settings: try Self.decode(statement.bytes(7)),
            createdAt: statement.moment(8)
        )
        self.init(
            profile: profile,
            seq: statement.integer(9),
            state: try Self.state(statement),
            planExpiresAt: statement.optionalMoment(12),
            era: statement.integer(13)
        )
    }

    private static func state(_ statement: SQLStatement) throws(SQLFailure) -> State {
        switch statement.integer(10) {
        case 0: return .active
        case 1:
            guard let target = try statement.optionalIdentifier(11) else { break }
            return .merged(into: target)
        case 2: return .deleted
        default: break
        }
        throw .unreadable("An account's state")
    }

    private static func decode(_ bytes: [UInt8]) throws(SQLFailure) -> JSONValue {
        do {
            return try JSONValue(written: bytes)
        } catch {
            throw .unreadable("An account's settings")
        }
    }
}

extension HoldRow: StoredRow {
    static let table = "holds"
    static let keyColumns = ["id"]
    static let valueColumns = [
        "account", "amount", "expires_at", "state", "captured", "reason", "operation", "sent",
        "quota", "quota_day", "quota_units", "charge_when_cut",
        "quota_kept", "grants", "spent_on", "labels",
    ]

    func bind(to statement: SQLStatement) {
        statement.bind(id)
        statement.bind(account)
        statement.bind(amount)
        statement.bind(expiresAt)
        switch state {
        case .open: statement.bind(0, nil)
        case .captured(let amount): statement.bind(1, amount)
        case .released: statement.bind(2, nil)
        case .expired: statement.bind(3, nil)
        }
        statement.bind(reason)
        statement.bind(operation)
        statement.bind(sent ? 1 : 0 as Int64)
        statement.bind(quota?.name)
        statement.bind(quota?.day.description)
        statement.bind(quota?.units)
        statement.bind(chargeWhenCut)
        statement.bind(quota?.isKeptWhenLost == true ? 1 : nil as Int64?)
        statement.bind(grants)
        statement.bind(spentOn?.description)
        statement.bind(labels.text)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        let state: State
        switch statement.integer(4) {
        case 0: state = .open
        case 1: state = .captured(statement.integer(5))
        case 2: state = .released
        case 3: state = .expired
        default: throw .unreadable("A hold's state")
        }
        var quota: QuotaHold?
        if let name = statement.optionalText(9) {
            guard let day = CalendarDay(statement.text(10)) else {
                throw .unreadable("The day of a hold's quota")
            }
            quota = QuotaHold(
                name: name,
                day: day,
                units: statement.integer(11),
                isKeptWhenLost: statement.optionalInteger(13) != nil
            )
        }
        self.init(
            id: try statement.identifier(0),
            account: try statement.identifier(1),
            amount: statement.integer(2),
            expiresAt: statement.moment(3),
            state: state,
            reason: statement.text(6),
            operation: statement.optionalText(7),
            sent: statement.integer(8) != 0,
            quota: quota,
            chargeWhenCut: statement.optionalInteger(12),
            grants: try statement.grants(14),
            spentOn: try statement.optionalText(15).map { text throws(SQLFailure) in
                guard let day = CalendarDay(text) else { throw .unreadable("The day of a hold") }
                return day
            },
            labels: statement.labels(16)
        )
    }
}

extension OperationRow: StoredRow {
    static let table = "operations"
    static let keyColumns = ["account", "key"]
    static let valueColumns = [
        "fingerprint", "state", "hold", "status", "head", "body", "at", "run", "parts",
    ]

    func bind(to statement: SQLStatement) {
        statement.bind(account)
        statement.bind(key)
        statement.bind(fingerprint)
        switch state {
        case .running(let hold):
            statement.bind(0 as Int64)
            statement.bind(hold)
            statement.bindNull()
            statement.bindNull()
            statement.bindNull()
        case .done(let answer):
            statement.bind(1 as Int64)
            statement.bindNull()
            statement.bind(Int64(answer.status))
            statement.bind(answer.head)
            statement.bind(answer.body)
        case .forgotten:
            statement.bind(2 as Int64)
            for _ in 0..<4 { statement.bindNull() }
        case .pushed(let head, let refusal):
            statement.bind(3 as Int64)
            statement.bindNull()
            statement.bindNull()
            statement.bind(head)
            if let refusal { statement.bind(refusal) } else { statement.bindNull() }
        }
        statement.bind(at)
        statement.bind(run)
        if case .done(let answer) = state {
            statement.bind(answer.parts)
        } else {
            statement.bindNull()
        }
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        let state: State
        switch statement.integer(3) {
        case 0:
            state = .running(hold: try statement.optionalIdentifier(4))
        case 1:
            state = .done(
                StoredAnswer(
                    status: Int(statement.integer(5)),
                    body: statement.bytes(7),
                    head: statement.optionalInteger(6),
                    parts: statement.optionalInteger(10)
                )
            )
        case 2:
            state = .forgotten
        case 3:
            state = .pushed(
                head: statement.integer(6),
                refusal: statement.isNull(7) ? nil : statement.bytes(7)
            )
        default:
            throw .unreadable("An operation's state")
        }
        self.init(
            account: try statement.identifier(0),
            key: statement.text(1),
            fingerprint: statement.bytes(2),
            state: state,
            at: statement.moment(8),
            run: try statement.optionalIdentifier(9)
        )
    }
}

extension Transfer {
    static let columns =
        "id, account, seq, kind, amount, available_after, held_after, reason, at, function, labels"

    func bind(to statement: SQLStatement) {
        statement.bind(id)
        statement.bind(account)
        statement.bind(seq)
        statement.bind(kind.stored)
        statement.bind(amount)
        statement.bind(availableAfter)
        statement.bind(heldAfter)
        statement.bind(reason)
        statement.bind(at)
        statement.bind(function)
        statement.bind(labels.text)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        guard let kind = LedgerEntry.Kind(stored: statement.integer(3)) else {
            throw .unreadable("A transfer's kind")
        }
        self.init(
            id: try statement.identifier(0),
            account: try statement.identifier(1),
            seq: statement.integer(2),
            kind: kind,
            amount: statement.integer(4),
            availableAfter: statement.integer(5),
            heldAfter: statement.integer(6),
            reason: statement.text(7),
            at: statement.moment(8),
            function: statement.optionalText(9),
            labels: statement.labels(10)
        )
    }
}

extension LedgerEntry.Kind {
    fileprivate var stored: Int64 {
        switch self {
        case .grant: 0
        case .spend: 1
        case .hold: 2
        case .release: 3
        case .capture: 4
        case .expire: 5
        case .debit: 11
        case .mergeOut: 6
        case .mergeIn: 7
        case .purchase: 8
        case .refund: 9
        case .expireGrant: 10
        // Only a client decodes such a kind; no row has this number.
        case .other: -1
        }
    }

    fileprivate init?(stored: Int64) {
        guard let kind = Self.allCases.first(where: { $0.stored == stored }) else { return nil }
        self = kind
    }
}

extension SQLStatement {
    fileprivate func bind(_ state: Int64, _ captured: Int64?) {
        bind(state)
        bind(captured)
    }
}
