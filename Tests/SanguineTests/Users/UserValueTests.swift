import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

extension ValueQuery where Value == Profile {
    fileprivate static func ofSession(_ audience: Policy.Audience) -> Self {
        ValueQuery("session", audience.rawValue, policy: .session.audience(audience)) { request in
            try await request.get("profiles/\(audience.rawValue)")
        }
    }
}

/// Guarantee 8, No leak, for reads.
@Suite("Visibility of user data", .bounded)
struct UserValueTests {
    private let other = Identifier("0199f3c8-0000-7c1e-9a54-3d2b8e07f6aa")

    @Test func `signing out removes the user's values from memory and disk`() async throws {
        let folder = TemporaryFolder()
        let user = TestAuthorizer()
        let test = try TestClient(network: .profiles(), folder: folder, authorizer: user)
        _ = try await test.client.value(of: .profile("ada"))
        _ = try await test.client.value(of: .fleeting("bob"))
        test.client.queries.entries.flush()
        user.change(to: nil, in: test.client)

        #expect(test.client.cached(.profile("ada")) == nil)
        #expect(test.client.cached(.fleeting("bob")) == nil)
        #expect(try !folder.contains("ada 1"))
    }

    @Test(arguments: [(Policy.Audience.device, 1), (.everyone, 1), (.user, 2)])
    func `a session-fresh value outlives the user unless it belongs to the user`(
        audience: Policy.Audience,
        requests: Int
    ) async throws {
        let user = TestAuthorizer()
        let test = try TestClient(network: .profiles(), authorizer: user)
        _ = try await test.client.value(of: .ofSession(audience))
        user.change(to: other, in: test.client)
        _ = try await test.client.value(of: .ofSession(audience))

        #expect(test.network.requests.count == requests)
    }

    @Test func `a session-fresh value is fetched again by the next process`() async throws {
        let folder = TemporaryFolder()
        let query = ValueQuery<Profile>("kept", policy: .session.audience(.device).stored(.onDisk))
        {
            try await $0.get("profiles/kept")
        }
        let first = try TestClient(network: .profiles(), folder: folder)
        _ = try await first.client.value(of: query)
        first.client.close()
        let second = try TestClient(network: .profiles(), folder: folder)
        #expect(second.client.cached(query) == Profile(name: "kept 1"))
        _ = try await second.client.value(of: query)

        #expect(second.network.requests.count == 1)
    }

    @Test func `values of the device or shared by everyone are kept`() async throws {
        let user = TestAuthorizer()
        let test = try TestClient(network: .profiles(), authorizer: user)
        _ = try await test.client.value(of: .fleeting("a", audience: .device))
        _ = try await test.client.value(of: .fleeting("b", audience: .everyone))
        user.change(to: nil, in: test.client)

        #expect(test.client.cached(.fleeting("a", audience: .device)) != nil)
        #expect(test.client.cached(.fleeting("b", audience: .everyone)) != nil)
    }

    @Test func `a late answer of the previous user is dropped`() async throws {
        let folder = TemporaryFolder()
        let user = TestAuthorizer()
        let test = try TestClient(network: .profiles(), folder: folder, authorizer: user)
        test.network.hold()
        let caller = Task { try await test.client.value(of: .profile("ada")) }
        try await test.network.waitForHeld(1)
        user.change(to: other, in: test.client)
        test.network.release()

        await #expect(throws: SanguineError.userChanged) { try await caller.finished() }
        test.client.queries.entries.flush()
        #expect(test.client.cached(.profile("ada")) == nil)
        #expect(try await test.client.value(of: .profile("ada")).name == "ada 2")
    }

    @Test func `files left by a kill during sign-out are removed at the next launch`()
        async throws
    {
        let folder = TemporaryFolder()
        let first = try TestClient(network: .profiles(), folder: folder)
        _ = try await first.client.value(of: .profile("ada"))
        first.client.close()
        // The next user's folder was already named, and the previous user's still exists.
        try Data("2\n".utf8).write(to: folder.url.appending(path: "present"))
        let second = try TestClient(
            folder: folder,
            authorizer: TestAuthorizer(account: other)
        )

        #expect(second.client.cached(.profile("ada")) == nil)
        #expect(!FileManager.default.fileExists(atPath: folder.user.path))
    }

    @Test func `a refreshed token keeps the user's values in memory and on disk`() async throws {
        try await ClientFixture.withFolder { folder in
            let fixture = ClientFixture()
            // The clock stands still so that the read does not reach its deadline.
            let first = try fixture.client(folder: folder) { $0.delay = ManualClock() }
            let token = try await first.session.accessToken()
            _ = try await first.value(of: .kept)
            first.queries.entries.flush()
            fixture.authority.expireTokens()
            #expect(try await first.session.rejected(token) != token)
            #expect(fixture.authority.count(ClientFixture.refreshPath) == 1)
            #expect(first.cached(.kept) == Profile(name: "ada"))
            first.close()
            #expect(try fixture.client(folder: folder).cached(.kept) == Profile(name: "ada"))
        }
    }

    @Test func `an account that becomes known keeps existing values`() async throws {
        let folder = TemporaryFolder()
        let user = TestAuthorizer(account: nil)
        let test = try TestClient(network: .profiles(), folder: folder, authorizer: user)
        _ = try await test.client.value(of: .profile("ada"))
        test.client.queries.entries.flush()
        user.join(other, in: test.client)

        let key = ValueQuery.profile("ada").key.text
        #expect(test.client.cached(.profile("ada")) != nil)
        #expect(try test.client.users.current.store.entry(key) != nil)
    }

    @Test func `observers are notified that the value was removed`() async throws {
        let user = TestAuthorizer()
        let test = try TestClient(network: .profiles(), authorizer: user)
        _ = try await test.client.value(of: .profile("ada"))
        var updates = test.client.updates(of: .profile("ada")).makeAsyncIterator()
        #expect(await updates.next()?.value != nil)
        user.change(to: nil, in: test.client)

        #expect(await updates.next() == ValueSnapshot())
        #expect(test.network.requests.count == 1)
    }

    @Test func `observers get the next user's value`() async throws {
        let user = TestAuthorizer()
        let test = try TestClient(network: .profiles(), authorizer: user)
        _ = try await test.client.value(of: .profile("ada"))
        var updates = test.client.updates(of: .profile("ada")).makeAsyncIterator()
        #expect(await updates.next()?.value?.name == "ada 1")
        user.change(to: other, in: test.client)

        while let state = await updates.next(), state.value == nil {}
        #expect(test.client.cached(.profile("ada"))?.name == "ada 2")
        #expect(test.network.requests.last?.headers["Authorization"] == "Bearer token-1-0")
    }
}

extension ValueQuery where Value == Profile {
    /// A value of the user, stored on disk, and produced without the network.
    fileprivate static var kept: Self {
        ValueQuery("kept", policy: .fresh(for: .minutes(5)).stored(.onDisk)) { _ in
            Profile(name: "ada")
        }
    }
}
