import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting

@testable import Sanguine

/// Devices of one account, each with a zone that a test sets, and a server in memory.
struct AccountFixture {
    let authority: InMemoryAuthority
    let clock: ManualWallClock
    /// A device closes its client when it is released.
    private let devices = WatchedState<[TestDevice]>([])

    init(accounts: InMemoryAuthority.Accounts = .one) {
        let clock = ManualWallClock()
        self.clock = clock
        authority = InMemoryAuthority(schema: .counters, accounts: accounts, clock: clock)
    }

    /// Returns a device whose account follows its zone; it lives as long as the fixture.
    func device(
        seed: UInt64 = 1,
        _ locale: DeviceLocale = DeviceLocale(timeZone: "Europe/Berlin"),
        network: (any HTTPTransport)? = nil,
        change: @escaping TestDevice.Configure = { _ in }
    ) -> TestDevice {
        let device = TestDevice(network: network ?? authority, clock: clock, seed: seed) {
            configuration in
            configuration.deviceLocale = locale
            configuration.language = "en"
            configuration.schema = .counters
            configuration.recordPolling = nil
            configuration.logger = .silent
            change(&configuration)
        }
        devices.withLock { $0.append(device) }
        return device
    }

    /// The account on the server.
    func stored(_ account: Identifier? = nil) async throws -> Account {
        try await authority.authority.account(account ?? authority.user).0
    }

    /// Changes the account, as another device does.
    func patch(_ patch: JSONValue, of account: Identifier? = nil) async throws {
        _ = try await authority.authority.patchAccount(account ?? authority.user, patch)
    }
}

/// A server that merges a guest into an account that a test chooses, as far as a client sees it:
/// the account's feed has other numbers, and knows the guest's operations by their ids only.
final class MergingNetwork: StreamingTransport {
    struct State {
        var account: Identifier?
        /// Whether the answer to the next merge is lost.
        var losesAnswer = false
        var requests: [TransportRequest] = []
        /// The endpoint whose requests wait, by method and path.
        var held: String?
        /// Answers of endpoints, by method and path.
        var answers: [String: TransportResponse] = [:]
    }

    let authority: InMemoryAuthority
    let state = WatchedState(State())

    init(_ authority: InMemoryAuthority) { self.authority = authority }

    func requests(_ path: String) -> [TransportRequest] {
        state.withLock { $0.requests.filter { $0.url.path() == path } }
    }

    /// Answers an endpoint, given by method and path.
    func answer(_ endpoint: String, _ body: Data, status: Int = 200) {
        let headers = ["content-type": "application/json"]
        let answer = TransportResponse(status: status, headers: headers, body: body)
        state.withLock { $0.answers[endpoint] = answer }
    }

    /// Lets requests of an endpoint, given by method and path, wait until ``release()``.
    func hold(_ endpoint: String) { state.withLock { $0.held = endpoint } }

    func release() { state.withLock { $0.held = nil } }

    /// Returns the answer to credentials of the account, which is registered.
    func session(of account: Identifier, merged: MergedGuest? = nil) async throws -> Data {
        let token = await authority.accessToken(for: account)
        let session = Session(accessToken: token, expiresIn: 900, refreshToken: "unused")
        var profile = try await authority.authority.account(account).0
        (profile.kind, profile.email) = (.registered, "ada@example.org")
        return try WireCoding.encode(
            SignedIn(account: profile, session: session, merged: merged)
        )
    }

    func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        let endpoint = "\(request.method) \(request.url.path())"
        let (account, scripted) = state.withLock { state in
            state.requests.append(request)
            return (state.account, state.answers[endpoint])
        }
        do {
            try await state.wait(for: "the release of \(endpoint)") { $0.held != endpoint }
        } catch {
            throw .interrupted("\(error)")
        }
        if let scripted { return scripted }
        guard request.url.path() == "/v1/sessions", request.method == "POST", let account else {
            return registered(account, in: try await authority.send(request))
        }
        let answer = await merged(into: account, request)
        let isLost = state.withLock { state in
            defer { state.losesAnswer = false }
            return state.losesAnswer
        }
        if isLost { throw .interrupted("lost") }
        return answer
    }

    /// Returns the response with the account as a registered one; any other response as it is.
    private func registered(
        _ account: Identifier?,
        in response: TransportResponse
    ) -> TransportResponse {
        guard var profile = try? WireCoding.decode(Account.self, from: response),
            profile.id == account
        else { return response }
        (profile.kind, profile.email) = (.registered, "ada@example.org")
        guard let body = try? WireCoding.encode(profile) else { return response }
        return TransportResponse(status: response.status, headers: response.headers, body: body)
    }

    private func merged(
        into account: Identifier,
        _ request: TransportRequest
    ) async -> TransportResponse {
        var guest: Identifier?
        if let token = request.headers.first(where: { $0.key.lowercased() == "authorization" }) {
            let ask = TransportRequest(
                url: request.url.deletingLastPathComponent().appending(path: "account"),
                headers: [token.key: token.value]
            )
            let answer = await authority.answer(ask)
            guest = try? WireCoding.decode(Account.self, from: answer).id
        }
        let merged = guest.map { MergedGuest(from: $0, records: 0, balances: 0, blobs: 0) }
        guard let body = try? await session(of: account, merged: merged) else {
            return TransportResponse(status: 500)
        }
        let headers = ["content-type": "application/json"]
        return TransportResponse(status: 200, headers: headers, body: body)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await authority.stream(request)
    }
}
