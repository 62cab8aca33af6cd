public import Foundation

/// The rights of an admin token; each role includes those before it.
public enum AdminRole: String, Codable, Sendable, CaseIterable, Comparable {
    /// Finds, lists and shows accounts, which the audit log records; verifies the ledger, and reads
    /// the audit log.
    case read
    /// Grants and takes back tokens and quota units, sets plans and ends sessions.
    case support
    /// Deletes and exports accounts, and exports the ledger.
    case owner

    /// Orders by rights.
    public static func < (lhs: AdminRole, rhs: AdminRole) -> Bool { lhs.rank < rhs.rank }

    private var rank: Int {
        switch self {
        case .read: 0
        case .support: 1
        case .owner: 2
        }
    }
}

/// A name and a role from the setting `admin.tokens`, such as `anna:support`.
struct AdminTokenSetting: Hashable, Sendable {
    let name: String
    let role: AdminRole

    /// Parses the text; `nil` if it is not valid.
    init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let role = AdminRole(rawValue: String(parts[1])),
            (1...32).contains(parts[0].utf8.count), parts[0] != AdminToken.ownerName,
            parts[0].utf8.allSatisfy({ byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "-"):
                    true
                default: false
                }
            })
        else { return nil }
        name = String(parts[0])
        self.role = role
    }
}

extension AdminTokenSetting {
    /// Returns a problem for each name that has several roles: all of them would be one token.
    static func problems(in tokens: [String]) -> [SettingsError.Problem] {
        let names = tokens.compactMap(AdminTokenSetting.init).map(\.name)
        let repeated = Dictionary(grouping: names) { $0 }.filter { $0.value.count > 1 }
        return repeated.keys.sorted().map { name in
            .invalid(
                setting: "admin.tokens",
                value: name,
                allowed: "each name once, because a token has one role",
                source: "settings"
            )
        }
    }
}

extension AdminToken {
    /// The name of the token in the file `admin-token`.
    static let ownerName = "owner"

    /// Reads all tokens, and generates those that are missing.
    ///
    /// - Parameters:
    ///   - folder: The data folder, which must exist.
    ///   - settings: The settings, which name further tokens.
    /// - Returns: The owner's token, then those of the settings. The one of `anna` is in the file
    ///   `admin-token.anna`.
    /// - Throws: ``OwnerFileError``, as ``loadOrCreate(in:)``.
    public static func loadOrCreateAll(
        in folder: URL,
        settings: ServerSettings
    ) throws(OwnerFileError) -> [AdminToken] {
        var tokens = [try loadOrCreate(in: folder)]
        for setting in settings.admin.tokens.compactMap(AdminTokenSetting.init) {
            tokens.append(
                try loadOrCreate(in: folder, name: setting.name, role: setting.role)
            )
        }
        return tokens
    }
}
