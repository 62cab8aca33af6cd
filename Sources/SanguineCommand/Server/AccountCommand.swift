import ArgumentParser
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer

/// `sanguine account`.
struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: "Look up accounts, and support, export or delete them.",
        subcommands: [
            Find.self, List.self, Show.self, Grant.self, Debit.self, GiveBack.self, Limit.self,
            Plan.self, Revoke.self, Delete.self, Export.self,
        ]
    )

    /// `sanguine account show`.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show an account with its balance, quotas, logins and newest ledger entries.",
            discussion:
                "Works while the server is running. Name the account by --id, --device or --email."
        )

        @OptionGroup var data: DataOptions
        @OptionGroup var options: SettingsOptions

        @Option(help: "The account's id.")
        var id: String?

        @Option(help: "The id of the device that created the account.")
        var device: String?

        @Option(help: "The account's verified e-mail address.")
        var email: String?

        @Option(help: "The number of ledger entries to show.")
        var entries = 10

        @Flag(help: "Print JSON.")
        var json = false

        func validate() throws {
            guard [id, device, email].compactMap(\.self).count == 1 else {
                throw ValidationError("Name the account by exactly one of --id, --device, --email.")
            }
            guard id.map({ Identifier($0) != nil }) ?? true else {
                throw ValidationError("Set '--id' to a UUID.")
            }
            guard (0...1_000).contains(entries) else {
                throw ValidationError("Set '--entries' to 0 to 1000.")
            }
        }

        func run() async throws {
            let settings = try await options.load().settings
            let inspection = try SQLiteStorage.inspect(folder: data.usableFolder())
            let shown = try await find(in: inspection, quotas: settings.quotas.map(\.name))
            await inspection.close()
            if json {
                try Output.write(json: shown)
            } else {
                try shown.print(unit: settings.accounts.unit)
            }
        }

        private func find(
            in inspection: SQLiteInspection,
            quotas: [String]
        ) async throws -> ShownAccount {
            guard let id = try await accountID(in: inspection) else {
                throw Failure("No account matches. Check the id and '--data'.")
            }
            let keys = [Key.account(id), .balance(id)] + quotas.map { .quota(id, name: $0) }
            let loaded = try await inspection.load(keys)
            guard let account = loaded.account(id) else {
                throw Failure("No account has this id. Check the id and '--data'.")
            }
            if case .merged(let target) = account.state {
                throw Failure("The guest was merged into \(target). Use '--id \(target)'.")
            }
            guard let balance = loaded.balance(id) else {
                throw Failure("The account has no balance. Run 'sanguine ledger verify'.")
            }
            return ShownAccount(
                account: account.profile,
                isDeleted: account.state == .deleted,
                available: balance.available,
                held: balance.held,
                spendingPerDay: balance.spending.perDay,
                head: balance.head,
                quotas: quotas.compactMap { name in
                    loaded.quota(id, name: name).map {
                        .init(name: name, day: $0.day, used: $0.used, resetsAt: $0.resetsAt)
                    }
                },
                logins: try await inspection.logins(of: id),
                ledger: try await inspection.transfers(of: id, limit: entries).map(\.transfer.entry)
            )
        }

        private func accountID(in inspection: SQLiteInspection) async throws -> Identifier? {
            if let id { return Identifier(id) }
            if let device {
                return try await inspection.load([.device(device)]).device(device)?.account
            }
            guard let email else { return nil }
            return try await inspection.account(email: email)?.id
        }
    }
}

/// The properties of an account for support.
struct ShownAccount: Encodable {
    struct UsedQuota: Encodable {
        var name: String
        var day: CalendarDay
        var used: Int64
        var resetsAt: Timestamp
    }

    var account: Account
    /// Whether only the anonymous entries of the ledger are left.
    var isDeleted: Bool
    var available: Int64
    var held: Int64
    /// The account's own spending limit; `nil` for the server's.
    var spendingPerDay: Int64?
    var head: Int64
    var quotas: [UsedQuota]
    /// The ways to sign in, without secrets.
    var logins: [LoginInfo]
    var ledger: [LedgerEntry]

    func print(unit: String) throws {
        let state = isDeleted ? ", deleted" : ""
        try Output.write(
            "account   \(account.id)  \(account.kind.rawValue), \(account.plan.rawValue)\(state)"
        )
        try Output.write("since     \(account.createdAt)  \(account.timeZone), \(account.language)")
        try Output.write("balance   \(available) \(unit), \(held) held  (head \(head))")
        if let spendingPerDay { try Output.write("limit     \(spendingPerDay) \(unit) per day") }
        for quota in quotas {
            let used = "\(quota.used) used on \(quota.day)"
            try Output.write("quota     \(quota.name): \(used), resets \(quota.resetsAt)")
        }
        for login in logins {
            let name = login.email ?? login.provider ?? ""
            try Output.write("login     \(login.kind.rawValue) \(name)  bound \(login.boundAt)")
        }
        for entry in ledger {
            let amount = entry.amount > 0 ? "+\(entry.amount)" : "\(entry.amount)"
            let move = entry.kind.rawValue.padded(to: 13) + amount.padded(to: 8)
            let result = "→ \(entry.balanceAfter)  \(entry.reason)"
            try Output.write("ledger    \(entry.at)  \(move)  \(result)")
        }
    }
}
