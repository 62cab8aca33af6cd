import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineServer

/// The ways to sign in, and the guests of an account, over HTTP.
@Suite("Logins and guests of an account", .bounded)
struct LoginRouteTests {
    /// Binds identities to a new guest's account, and returns its newest session.
    private func registered(_ subjects: [String], on server: LiveServer) async throws -> SignedIn {
        let authority = server.authority
        var session = try await server.guest().session
        var signedIn: SignedIn?
        for subject in subjects {
            let identity = try await authority.tokens.verify(session.accessToken)
            let name = Login.Name.identity(provider: "example", subject: subject)
            signedIn = try await authority.register(name, email: nil, identity).0
            session = try #require(signedIn).session
        }
        return try #require(signedIn)
    }

    private func authorization(_ signedIn: SignedIn) -> [String: String] {
        ["Authorization": "Bearer \(signedIn.session.accessToken)"]
    }

    @Test func `a login is listed and removed, and the last one stays`() async throws {
        try await LiveServer.with { server in
            let ana = try await registered(["first", "second"], on: server)
            let headers = authorization(ana)
            let path = "/v1/account/logins"
            let list = try await server.send("GET", path, headers: headers)
            #expect(list.status == 200 && list["ETag"] != nil)
            let logins = try list.decode(Items<LoginInfo>.self).items
            #expect(logins.map(\.provider) == ["example", "example"])
            #expect(!list.body.contains("first"))

            let first = "\(path)/\(try #require(logins.first).id)"
            let removed = try await server.send("DELETE", first, "{}", headers: headers)
            #expect(removed.status == 200 && removed["Sanguine-Head"] != nil)
            #expect(try removed.decode(Items<LoginInfo>.self).items == [logins[1]])
            #expect(try await server.send("DELETE", first, headers: headers).status == 404)
            let last = try await server.send("DELETE", "\(path)/\(logins[1].id)", headers: headers)
            #expect(last.status == 409 && last.code == "last_login")
            #expect(try await server.send("GET", "/v1/account", headers: headers).status == 200)
        }
    }

    @Test func `an account is asked about guests, and tells only of its own`() async throws {
        try await LiveServer.with { server in
            let ana = try await registered(["ana"], on: server)
            let (guest, other) = (try await server.guest(), try await server.guest())
            let identity = try await server.authority.tokens.verify(guest.session.accessToken)
            _ = try await server.authority.merge(identity, into: ana.account.id)
            let path = "/v1/account/guests?ids=\(other.account.id),\(guest.account.id)"
            let reply = try await server.send("GET", path, headers: authorization(ana))
            let guests = try reply.decode(Items<FormerGuest>.self).items
            #expect(guests == [FormerGuest(id: guest.account.id)])
            #expect(try await other.get(path).decode(Items<FormerGuest>.self).items.isEmpty)
        }
    }

    @Test(arguments: ["", "?ids=", "?ids=ada", "?ids=\(LoginRouteTests.tooMany)"])
    func `a list of guests that cannot be read is refused`(query: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.get("/v1/account/guests\(query)")
            #expect(reply.status == 400 && reply.code == "malformed_request")
        }
    }

    fileprivate static let tooMany = (0...20).map { _ in
        "\(Identifier(at: Timestamp(millisecondsSince1970: 0)))"
    }.joined(separator: ",")
}
