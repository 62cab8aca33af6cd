import Foundation
import Sanguine
import SanguineModel

/// Creates posts before a run, so that there is a list to load.
struct LoadPreparation {
    let url: URL
    let collection: String
    /// Distinguishes the devices and records of this run from those of others.
    let run: String
    let clock: any WallClock

    /// Creates posts, a hundred with each request.
    ///
    /// - Throws: ``Failure`` with the server's detail.
    func create(_ posts: Int) async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        var made = 0
        while made < posts {
            try Task.checkCancellation()
            let guest = made / LoadLimits.postsPerGuest
            let device = "load-\(run)-author-\(guest)"
            let token = try await signIn(device, transport)
            let last = min(posts, (guest + 1) * LoadLimits.postsPerGuest)
            while made < last {
                let count = min(WireLimits.pushedOperations, last - made)
                let numbers = made..<made + count
                let operations = numbers.map { number in
                    LoadUsers.create(
                        Identifier(at: clock.now()).description,
                        Int64(number % LoadLimits.postsPerGuest + 1),
                        in: collection,
                        Identifier(at: clock.now()).description,
                        fields: #"{"text":"Post \#(number)"}"#
                    )
                }
                let body = LoadUsers.push(device: device, operations: operations)
                let answer = try await send("/v1/sync/push", body, token: token, transport)
                if let code = ResponseText(answer).string(named: "code") {
                    throw Failure(
                        "A post was refused with \(code). Set '--collection', or '--posts 0'."
                    )
                }
                made += count
            }
        }
    }

    private func signIn(
        _ device: String,
        _ transport: URLSessionTransport
    ) async throws -> String {
        let secret = String(repeating: "A", count: 43)
        let body = #"{"deviceId":"\#(device)","deviceSecret":"\#(secret)"}"#
        let answer = try await send("/v1/accounts/guest", body, token: nil, transport)
        guard let token = ResponseText(answer).string(named: "accessToken") else {
            throw Failure("The server at \(url) gave no session. Check '--server'.")
        }
        return token
    }

    private func send(
        _ path: String,
        _ body: String,
        token: String?,
        _ transport: URLSessionTransport
    ) async throws -> [UInt8] {
        var headers = ["Content-Type": "application/json"]
        if let token { headers["Authorization"] = "Bearer \(token)" }
        guard let address = URL(string: path, relativeTo: url)?.absoluteURL else {
            throw Failure("'\(url)' is not a valid URL. Check '--server'.")
        }
        let request = TransportRequest(
            method: "POST",
            url: address,
            headers: headers,
            body: Data(body.utf8)
        )
        let response: TransportResponse
        do { response = try await transport.send(request) } catch {
            throw Failure("The server at \(url) did not respond. \(error)")
        }
        guard (200..<300).contains(response.status) else {
            let code = ResponseText(Array(response.body)).string(named: "code") ?? ""
            let reason = "\(response.status) \(code)"
            let step = path.hasSuffix("guest") ? "guest" : "post"
            let advice = LoadAdvice.advice(step: step, reason: reason) ?? ""
            throw Failure("Posts could not be created: \(reason). \(advice)")
        }
        return Array(response.body)
    }
}
