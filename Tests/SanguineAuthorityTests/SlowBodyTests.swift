import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Requests whose session ends, or whose token expires, while their body is received.
@Suite("Requests with slow bodies", .bounded)
struct SlowBodyTests {
    private let world = EmailWorld()
    private var admission: Admission { Admission(world.authority) }

    private struct SlowRequest: WireRequest {
        let token: String
        let receiving: @Sendable () async throws(Problem) -> Void

        var method: String { "POST" }
        var path: String { "/v1/slow" }
        var address: String? { nil }
        var query: WireQuery { WireQuery() }

        func field(_ field: WireField) -> String? {
            switch field {
            case .authorization: "Bearer \(token)"
            case .idempotencyKey: "k"
            default: nil
            }
        }

        func parameter(_ name: String) -> String? { nil }

        func body() async throws(Problem) -> [UInt8] {
            try await receiving()
            return Array("{}".utf8)
        }

        func file() async throws(Problem) -> [UInt8] { try await body() }
        func admit(_ identity: Identity) throws(Problem) {}
        func admitAnonymous() throws(Problem) {}
        func checkAddress() throws(Problem) {}
        func charge(_ time: Duration) {}
    }

    /// The ways in which a request with a body is admitted.
    enum Way: CaseIterable {
        case body, submission, passedOn, push, file, ticket, merge
    }

    private func refusal(_ way: Way, _ request: SlowRequest) async -> ProblemCode? {
        await problem { () throws(Problem) in
            switch way {
            case .body: _ = try await admission.body(request, as: EmptyBody.self)
            case .submission:
                _ = try await admission.submit(request, as: EmptyBody.self) { _ in "" }
            case .passedOn: _ = try await admission.submitPassedOn(request, keyIfNone: "k")
            case .push: _ = try await admission.push(request)
            case .file: _ = try await admission.file(request)
            case .ticket: _ = try await admission.live(withBody: request)
            case .merge: _ = try await admission.merging(request, as: EmptyBody.self)
            }
        }?.code
    }

    private func guest() async throws -> (Identity, token: String) {
        let request = GuestRequest(
            deviceId: "device-of-a-slow-client",
            deviceSecret: Base64URL.encode([UInt8](repeating: 7, count: 32))
        )
        let token = try await world.authority.guest(request).signedIn.session.accessToken
        return (try await world.authority.tokens.verify(token), token)
    }

    @Test(arguments: Way.allCases)
    func `a request is refused if its session ends while the body is received`(
        way: Way
    ) async throws {
        let (identity, token) = try await guest()
        let request = SlowRequest(token: token) { [world] () throws(Problem) in
            try await world.authority.signOut(identity)
        }

        #expect(await refusal(way, request) == .sessionEnded)
    }

    @Test(arguments: Way.allCases)
    func `a request is admitted if its token expires while the body is received`(
        way: Way
    ) async throws {
        let (_, token) = try await guest()
        let request = SlowRequest(token: token) { [world] () throws(Problem) in
            world.clock.advance(by: .seconds(1_000))
        }

        #expect(await refusal(way, request) == nil)
    }

    @Test func `a session that ends before the token expires is refused`() async throws {
        let (identity, token) = try await guest()
        let request = SlowRequest(token: token) { [world] () throws(Problem) in
            try await world.authority.signOut(identity)
            world.clock.advance(by: .seconds(1_000))
        }

        #expect(await refusal(.body, request) == .sessionEnded)
    }
}
