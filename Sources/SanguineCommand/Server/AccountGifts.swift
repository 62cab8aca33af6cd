import ArgumentParser
import Foundation
import SanguineModel

extension AccountCommand {
    /// `sanguine account grant`.
    struct Grant: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Grant tokens to an account.",
            discussion: "Calls the running server at its admin port, with an admin token."
        )

        @OptionGroup var gift: GiftOptions

        @Option(help: "The time at which what is left expires, such as 2030-01-31T00:00:00Z.")
        var until: String?

        func validate() throws {
            guard until.map({ Timestamp($0) != nil }) ?? true else {
                throw ValidationError("Set '--until' to a time such as 2030-01-31T00:00:00Z.")
            }
        }

        func run() async throws {
            let request = GrantRequest(
                amount: gift.amount,
                reason: gift.reason.reason,
                expiresAt: until.flatMap { Timestamp($0) }
            )
            let body = try await gift.send(request, to: "grants")
            if gift.admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            let answer = try JSONDecoder().decode(BalanceAnswer.self, from: body)
            try Output.write("balance   \(answer.balance.available) \(answer.balance.unit)")
        }
    }

    /// `sanguine account give-back`.
    struct GiveBack: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Return units of a quota to an account.",
            discussion: """
                At most the units that were used in the current period can be returned. Calls the \
                running server at its admin port, with an admin token.
                """
        )

        @OptionGroup var gift: GiftOptions

        @Option(help: "The quota's name.")
        var quota: String

        func run() async throws {
            // Names have no other characters, and a slash must not lead to another path.
            let name = quota.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            let request = SpendRequest(amount: gift.amount, reason: gift.reason.reason)
            let body = try await gift.send(request, to: "quotas/\(name)")
            if gift.admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            let answer = try JSONDecoder().decode(QuotaAnswer.self, from: body)
            let left = answer.quota.remaining.map { "\($0) of \(answer.quota.limit) left" }
            try Output.write("quota     \(answer.quota.name): \(left ?? "unlimited")")
        }
    }
}

extension AccountCommand {
    /// `sanguine account limit`.
    struct Limit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set the amount that an account may spend per day.",
            discussion: """
                Replaces 'spending.perDay' for this account, or with '--default' restores it. What \
                was spent today counts. Calls the running server at its admin port, with an admin \
                token.
                """
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var account: AccountOption
        @OptionGroup var reason: ReasonOption

        @Option(help: "The amount per day of the account's calendar, 0 or more.")
        var perDay: Int64?

        @Flag(name: .customLong("default"), help: "Restore the server's limit.")
        var restoresDefault = false

        @Option(
            help: "The idempotency key, to repeat a request without a response. Default: a new one."
        )
        var key: String?

        func validate() throws {
            guard (perDay != nil) != restoresDefault else {
                throw ValidationError("Set either '--per-day' or '--default'.")
            }
            guard perDay.map({ $0 >= 0 }) ?? true else {
                throw ValidationError("Set '--per-day' to 0 or more.")
            }
        }

        func run() async throws {
            let body = try await admin.send(
                "PUT",
                "\(account.path)/spending",
                body: SpendingLimitRequest(perDay: perDay, reason: reason.reason),
                key: key ?? UUID().uuidString.lowercased()
            )
            if admin.json { return try Output.write(String(decoding: body, as: UTF8.self)) }
            let unit = try JSONDecoder().decode(BalanceAnswer.self, from: body).balance.unit
            let limit = perDay.map { "\($0) \(unit) per day" }
            try Output.write("limit     \(limit ?? "that of the server")")
        }
    }
}

/// The amount, its reason, the account, and the address of the server.
struct GiftOptions: ParsableArguments {
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

    /// Sends the request to the admin port, and returns the body of the response.
    fileprivate func send(_ request: some Encodable, to path: String) async throws -> Data {
        try await admin.send(
            "POST",
            "\(account.path)/\(path)",
            body: request,
            key: key ?? UUID().uuidString.lowercased()
        )
    }
}
