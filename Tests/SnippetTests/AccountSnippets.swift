import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

// The samples of the guides to the account, the quota and the identity.

struct ReadingSettings: AppSettings {
    var hasOnboarded = false
    var remindsDaily = true
}

@Suite("Account snippets", .bounded)
struct AccountSnippets {
    private struct Reading {
        let id = "reading-1"
    }

    private let authority = InMemoryAuthority()

    private func client() throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.transport = authority
        return try SanguineClient(configuration)
    }

    @Test func `the account is read and changed`() async throws {
        let client = try client()
        defer { client.close() }
        let account = client.account.current
        let greeting = account.displayName ?? "Guest"
        #expect(greeting == "Guest")
        try client.account.update {
            $0.language = "de"
            $0.settings["onboarding"] = true
        }
        let settings = client.account.current.settings.decoded(as: ReadingSettings.self)
        if !settings.hasOnboarded {
            try client.account.update(ReadingSettings.self) { $0.hasOnboarded = true }
        }
        try client.account.update { $0.timeZone = "Europe/Istanbul" }
        try client.account.followDeviceTimeZone()
        #expect(client.account.current.settings["onboarding"] == true)
        #expect(client.account.current.settings["hasOnboarded"] == true)
    }

    @Test @MainActor func `a quota is consumed until the paywall`() async throws {
        let client = try client()
        defer { client.close() }
        let reading = Reading()
        var shown = 0
        func showPaywall(until reset: Timestamp?, plans: [String]) { shown += 1 }
        let quota = try await client.consume("readings", id: reading.id)
        #expect(quota.used == 1)
        for _ in 0..<3 {
            do {
                try await client.consume("readings")
            } catch {
                guard case .problem(let problem) = error, problem.code == .quotaExhausted
                else { throw error }
                showPaywall(until: problem.resetsAt, plans: problem.lifts ?? [])
            }
        }
        #expect(shown == 1)
        _ = try await client.quotas.value()
        let paywall = client.paywall(for: "readings")
        if paywall.isExhausted, let reset = paywall.resetsAt {
            showPaywall(until: reset, plans: paywall.lifts.map(\.rawValue))
        }
        let left = client.quotas["readings"]?.remaining
        #expect(left == 0)
    }

    @Test func `a quota is consumed without waiting for the server`() async throws {
        let client = try client()
        defer { client.close() }
        let reading = Reading()
        let use = try client.consumeOptimistically("readings", id: reading.id)
        #expect(use.id == reading.id)
        #expect(try await use.receipt.outcome == .applied)
    }

    private func takeBack(_ id: String, until reset: Timestamp?) {}

    // The sample is only compiled: nothing is refused here.
    private func refusals(_ client: SanguineClient) async {
        for await refusal in client.quotas.refusals {
            takeBack(refusal.id, until: refusal.problem.resetsAt)
        }
    }

    private func showCodeField(_ address: String) {}
    private func showCode(_ code: String, validUntil end: Timestamp) {}
    private func confirms(_ preview: MergePreview) async -> Bool { true }

    // The endpoints are the server's: these samples are only compiled.
    private func identity(
        _ client: SanguineClient,
        _ email: String,
        _ password: String,
        _ code: String,
        _ token: String,
        _ nonce: String,
        _ file: URL
    ) async throws {
        let sent = try await client.account.upgrade(email: email, password: password)
        showCodeField(sent.sentTo)
        try await client.account.verify(code: code)
        try await client.account.link(provider: "apple", identityToken: token, nonce: nonce)
        try await client.signIn(email: email, password: password)
        let offer = try await client.account.previewMerge(email: email, password: password)
        if await confirms(offer.preview) { try await client.account.merge(offer) }
        let move = try await client.account.moveCode()
        showCode(move.code, validUntil: move.expiresAt)
        try await client.signIn(moveCode: code)
        for session in try await client.sessions.list() where !session.isCurrent {
            try await client.sessions.revoke(session.id)
        }
        for login in try await client.account.logins() where login.provider == "google" {
            try await client.account.unlink(login.id)
        }
        try await client.account.export(to: file)
        try await client.deleteAccount()
    }
}
