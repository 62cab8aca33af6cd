import ArgumentParser
import Foundation
import Sanguine
import SanguineModel
import SanguineServer

extension AccountCommand {
    /// `sanguine account grant`.
    struct Grant: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Grant tokens to an account.",
            discussion: "Calls the running server at its admin port, with the admin token."
        )

        @OptionGroup var gift: GiftOptions

        func run() async throws {
            let answer = try await gift.send("grants", as: BalanceAnswer.self)
            if gift.json { return try Output.write(json: answer) }
            try Output.write("balance   \(answer.balance.available) \(answer.balance.unit)")
        }
    }

    /// `sanguine account give-back`.
    struct GiveBack: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Return units of a daily quota to an account.",
            discussion: """
                At most the units that were used today can be returned. Calls the running server \
                at its admin port, with the admin token.
                """
        )

        @OptionGroup var gift: GiftOptions

        @Option(help: "The quota's name.")
        var quota: String

        func run() async throws {
            // Names have no other characters, and a slash must not lead to another path.
            let name = quota.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            let answer = try await gift.send("quotas/\(name)", as: QuotaAnswer.self)
            if gift.json { return try Output.write(json: answer) }
            let left = answer.quota.remaining.map { "\($0) of \(answer.quota.limit) left" }
            try Output.write("quota     \(answer.quota.name): \(left ?? "unlimited")")
        }
    }
}

/// The amount, its reason, the account, and the address of the server.
struct GiftOptions: ParsableArguments {
    @OptionGroup var data: DataOptions
    @OptionGroup var options: SettingsOptions

    @Option(help: "The account's id; 'sanguine account show' finds it.")
    var id: String

    @Option(help: "The amount, 1 or more.")
    var amount: Int64

    @Option(help: "The reason, as shown in the account's ledger.")
    var reason: String

    @Option(
        help: "The idempotency key, to repeat a request without a response. Default: a new one."
    )
    var key: String?

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        guard Identifier(id) != nil else { throw ValidationError("Set '--id' to a UUID.") }
        guard amount > 0 else { throw ValidationError("Set '--amount' to 1 or more.") }
    }

    /// Sends the request to the admin port.
    fileprivate func send<Answer: Decodable>(
        _ path: String,
        as type: Answer.Type
    ) async throws -> Answer {
        let http = try await options.load().settings.http
        let folder = try data.usableFolder()
        let file = folder.appending(path: AdminToken.name)
        guard FileManager.default.fileExists(atPath: file.path) else {
            throw Failure(
                "There is no admin token at \(file.path). Start the server once, or set '--data'."
            )
        }
        let token = try AdminToken.loadOrCreate(in: folder).reveal()
        let port = http.adminPort ?? http.port + 1
        let host = http.adminHost.contains(":") ? "[\(http.adminHost)]" : http.adminHost
        let address = "http://\(host):\(port)/admin/v1/accounts/\(id.lowercased())/\(path)"
        guard let url = URL(string: address) else {
            throw Failure("'\(address)' is not a valid URL. Set '--admin-host'.")
        }
        let key = key ?? UUID().uuidString.lowercased()
        let transport = URLSessionTransport()
        defer { transport.close() }
        let request = TransportRequest(
            method: "POST",
            url: url,
            headers: [
                "Authorization": "Bearer \(token)", "Idempotency-Key": key,
                "Content-Type": "application/json",
            ],
            body: try JSONEncoder().encode(SpendRequest(amount: amount, reason: reason))
        )
        let response: TransportResponse
        do {
            response = try await transport.send(request)
        } catch {
            throw Failure(
                "The server at \(address) did not respond: \(error). Repeat it with '--key \(key)'."
            )
        }
        guard response.status == 200 else {
            let problem = try? JSONDecoder().decode(Problem.self, from: response.body)
            throw Failure(
                problem.map { "\($0.detail) (\($0.code.rawValue))" }
                    ?? "The server responded with \(response.status). Check '--admin-port'."
            )
        }
        return try JSONDecoder().decode(Answer.self, from: response.body)
    }
}
