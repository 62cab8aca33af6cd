import ArgumentParser
import Foundation
import SanguineModel
import SanguineServer

extension AccountCommand {
    /// `sanguine account find`.
    struct Find: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Find an account by its device or e-mail address.",
            discussion: "Calls the running server at its admin port, with an admin token."
        )

        @OptionGroup var admin: AdminOptions

        @Option(help: "The id of a device of the account.")
        var device: String?

        @Option(help: "The account's verified e-mail address.")
        var email: String?

        func validate() throws {
            guard (device == nil) != (email == nil) else {
                throw ValidationError("Name the account by either --device or --email.")
            }
        }

        func run() async throws {
            let query = ["deviceId": device, "email": email]
            let body = try await admin.send("GET", "accounts", query: query)
            if admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            try JSONDecoder().decode(Account.self, from: body).write()
        }
    }

    /// `sanguine account list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the accounts, page by page.",
            discussion: """
                The last line names the cursor of the next page. Calls the running server at its \
                admin port, with an admin token.
                """
        )

        @OptionGroup var admin: AdminOptions

        @Option(help: "The kind: guest or registered. Default: both.")
        var kind: String?

        @Option(help: "The number of accounts, 1 to 100.")
        var limit = WireLimits.defaultPage

        @Option(help: "The cursor of the page. Default: the first page.")
        var cursor: String?

        func validate() throws {
            guard (1...WireLimits.largestPage).contains(limit) else {
                throw ValidationError("Set '--limit' to 1 to \(WireLimits.largestPage).")
            }
            guard kind.map({ Account.Kind(rawValue: $0) != nil }) ?? true else {
                throw ValidationError("Set '--kind' to guest or registered.")
            }
        }

        func run() async throws {
            let query = ["kind": kind, "limit": String(limit), "cursor": cursor]
            let body = try await admin.send("GET", "accounts", query: query)
            if admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            let page = try JSONDecoder().decode(ListPage<Account>.self, from: body)
            for account in page.items { try account.write() }
            if let next = page.nextCursor { try Output.write("next      --cursor \(next)") }
        }
    }

    /// `sanguine account debit`.
    struct Debit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take tokens back from an account, never those that are held.",
            discussion: "Calls the running server at its admin port, with an admin token."
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var account: AccountOption
        @OptionGroup var reason: ReasonOption

        @Option(help: "The amount, 1 or more.")
        var amount: Int64

        @Option(
            help: "The idempotency key, to repeat a request without a response. Default: a new one."
        )
        var key: String?

        func validate() throws {
            guard amount > 0 else { throw ValidationError("Set '--amount' to 1 or more.") }
        }

        func run() async throws {
            let body = try await admin.send(
                "POST",
                "\(account.path)/debits",
                body: SpendRequest(amount: amount, reason: reason.reason),
                key: key ?? UUID().uuidString.lowercased()
            )
            if admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            let answer = try JSONDecoder().decode(BalanceAnswer.self, from: body)
            try Output.write("balance   \(answer.balance.available) \(answer.balance.unit)")
        }
    }

    /// `sanguine account plan`.
    struct Plan: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set the plan of an account.",
            discussion: "Calls the running server at its admin port, with an admin token."
        )

        private struct Body: Encodable {
            var plan: String
            var expiresAt: String?
            var reason: String
        }

        @OptionGroup var admin: AdminOptions
        @OptionGroup var account: AccountOption
        @OptionGroup var reason: ReasonOption

        @Option(help: "The plan: free or premium.")
        var plan: String

        @Option(help: "The time at which the plan ends, such as 2030-01-31T00:00:00Z.")
        var until: String?

        func validate() throws {
            guard Account.Plan(rawValue: plan) != nil else {
                throw ValidationError("Set '--plan' to free or premium.")
            }
        }

        func run() async throws {
            let body = try await admin.send(
                "PUT",
                "\(account.path)/plan",
                body: Body(plan: plan, expiresAt: until, reason: reason.reason)
            )
            if admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            try JSONDecoder().decode(Account.self, from: body).write()
        }
    }

    /// `sanguine account revoke`.
    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End a session of an account, or all of them.",
            discussion: "Calls the running server at its admin port, with an admin token."
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var account: AccountOption
        @OptionGroup var reason: ReasonOption

        @Option(help: "The session's id. Default: all sessions.")
        var session: String?

        func validate() throws {
            guard session.map({ Identifier($0) != nil }) ?? true else {
                throw ValidationError("Set '--session' to a UUID.")
            }
        }

        func run() async throws {
            let path = session.map { "/\($0.lowercased())" } ?? ""
            _ = try await admin.send(
                "DELETE",
                "\(account.path)/sessions\(path)",
                query: ["reason": reason.reason]
            )
            if admin.json { return try Output.write("{}") }
            try Output.write(session == nil ? "All sessions ended." : "The session ended.")
        }
    }

    /// `sanguine account delete`.
    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete an account with all data of the person.",
            discussion: """
                All access ends at once; the data of a large account is removed in the \
                background, and 'show' on the admin port has the progress. The anonymous entries \
                of the ledger are kept. This cannot be undone.
                """
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var account: AccountOption
        @OptionGroup var reason: ReasonOption

        @Flag(help: "Confirm the deletion.")
        var yes = false

        func validate() throws {
            guard yes else {
                throw ValidationError("Add '--yes' to delete the account. It cannot be undone.")
            }
        }

        func run() async throws {
            let body = try await admin.send(
                "DELETE",
                account.path,
                query: ["reason": reason.reason]
            )
            if admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            let removal = try JSONDecoder().decode(RemovalAnswer.self, from: body).removal
            try Output.write("removal   \(removal.state.rawValue), \(removal.removed) rows so far")
        }
    }

    /// `sanguine account export`.
    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write everything of an account as JSON Lines.",
            discussion: """
                The last line has the type 'end': a copy without it is incomplete. Calls the \
                running server at its admin port, with an admin token.
                """
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var account: AccountOption
        @OptionGroup var reason: ReasonOption

        func run() async throws {
            try await admin.write("\(account.path)/export", query: ["reason": reason.reason])
        }
    }
}

extension Account {
    /// Writes the account as one line.
    fileprivate func write() throws {
        let email = email.map { "  \($0)" } ?? ""
        try Output.write("\(id)  \(kind.rawValue), \(plan.rawValue)  \(createdAt)\(email)")
    }
}
