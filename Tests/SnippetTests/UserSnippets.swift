import Foundation
import Sanguine
import SanguineTesting
import Synchronization
import TestSupport
import Testing

/// The samples of the guide to users of an app's own backend.
@Suite("User snippets", .bounded)
struct UserSnippets {
    /// The storage in which the app keeps the current user's token.
    private final class Tokens: Sendable {
        private let token = Mutex<String?>(nil)

        var current: String? {
            get { token.withLock { $0 } }
            set { token.withLock { $0 = newValue } }
        }
    }

    /// The result of the backend's sign-in.
    private struct Login {
        var userID: String
        var token: String
    }

    private let tokens = Tokens()
    private let session = Login(userID: "42", token: "a token")

    private func configuration() -> SanguineClient.Configuration {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = ScriptedTransport { _ in .json(Track(id: "1")) }
        configuration.connectivity = ManualConnectivity(isOnline: false)
        configuration.register(Like.self)
        let tokens = tokens
        configuration.authorize = { request in
            guard let token = tokens.current else { return }
            request.headers["Authorization"] = "Bearer \(token)"
        }
        return configuration
    }

    @Test func `a user signs in, signs out and returns`() async throws {
        let client = try SanguineClient(configuration())

        tokens.current = session.token
        try client.signIn(as: session.userID)
        let user = client.userID
        #expect(user == "42")
        try client.perform(Like(track: "1"))

        tokens.current = nil
        await client.signOut()
        #expect(client.userID == nil && client.outbox.ofOthers == 1)

        try client.signIn(as: session.userID)
        #expect(client.outbox.pending.count == 1)
        await client.signOut(keeping: .waitingOperations(for: .hours(30 * 24)))
        #expect(client.outbox.ofOthers == 1)
    }

    @Test func `signing out and erasing can discard queued operations`() async throws {
        let client = try SanguineClient(configuration())
        try client.signIn(as: session.userID)
        try client.perform(Like(track: "1"))
        await client.signOut(keeping: .nothing)  // Unsent operations are lost.
        #expect(client.outbox.ofOthers == 0)

        try client.signIn(as: session.userID)
        try client.perform(Like(track: "1"))
        try await client.eraseLocalData()
        #expect(client.userID == nil && client.outbox.ofOthers == 0)
    }

    @Test func `the next user sees none of the previous user's data`() async throws {
        let backend = ScriptedTransport { _ in .json(Track(id: "1", title: "Ada's song")) }
        let device = TestDevice(network: backend) {
            $0.server = nil
            $0.baseURL = URL(string: "https://api.example.org")
            $0.register(Like.self)
        }
        let client = try device.launch()
        try client.signIn(as: "ada")
        _ = try await client.value(of: .track("1"))
        device.connectivity.disconnect()
        try client.perform(Like(track: "1"))

        await client.signOut()
        try client.signIn(as: "bob")
        #expect(client.cached(.track("1")) == nil)
        #expect(client.outbox.pending.isEmpty)  // Ada's operations wait for her return.
        #expect(try device.files(with: "Ada's song").isEmpty)

        try device.kill()
        let next = try device.launch()
        #expect(next.userID == "bob")
        try next.signIn(as: "ada")
        #expect(next.outbox.pending.count == 1)
    }
}
