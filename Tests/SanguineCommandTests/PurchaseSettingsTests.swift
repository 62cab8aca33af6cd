import Foundation
import SanguineAuthority
import SanguineModel
import SanguineServer
import TestSupport
import Testing

@testable import SanguineCommand

/// The settings of purchases in a file.
@Suite("Settings of purchases", .bounded)
struct PurchaseSettingsTests {
    /// Loads and validates a file, and returns the settings or the text of its problems.
    private func load(_ yaml: String) async throws -> Result<ServerSettings, SettingsError> {
        try await TemporaryFolder.with { folder in
            let file = folder.appending(path: "sanguine.yaml")
            try Data(yaml.utf8).write(to: file)
            do {
                let loader = SettingsLoader(flags: [:], environment: [:], file: file.path)
                let settings = try await loader.load().settings
                try settings.validate()
                return .success(settings)
            } catch let error as SettingsError {
                return .failure(error)
            }
        }
    }

    private func refusal(_ yaml: String) async throws -> String {
        switch try await load(yaml) {
        case .success: ""
        case .failure(let error): error.description
        }
    }

    @Test func `products are declared in the file`() async throws {
        let settings = try await load(
            """
            appStore:
              bundleId: com.example.app
              appAppleId: 1234567890
              roots: [AppleRootCA-G3.cer]
              products:
                com.example.tokens100: tokens 100
                com.example.month: plan premium
                com.example.pass: plan premium 30d
            """
        ).get()
        #expect(settings.appStore.bundleId == "com.example.app")
        #expect(
            settings.appStore.products == [
                "com.example.tokens100": .tokens(100), "com.example.month": .premium(days: nil),
                "com.example.pass": .premium(days: 30),
            ]
        )
    }

    @Test func `an app without a root certificate is refused`() async throws {
        let text = try await refusal("appStore: {bundleId: com.example.app, appAppleId: 1}")
        #expect(text.contains("'appStore.roots'") && text.contains("at least one file"))
    }

    @Test func `an app in production without its Apple ID is refused, and the sandbox is not`()
        async throws
    {
        let app = "bundleId: com.example.app, roots: [a.cer]"
        let text = try await refusal("appStore: {\(app)}")
        #expect(text.contains("'appStore.appAppleId'") && text.contains("App Information"))
        #expect(try await refusal("appStore: {\(app), environment: sandbox}").isEmpty)
        #expect(try await refusal("appStore: {\(app), appAppleId: 1234567890}").isEmpty)
    }

    @Test func `products without an app are refused`() async throws {
        let text = try await refusal("appStore: {products: {tokens: tokens 5}}")
        #expect(text.contains("'appStore.bundleId'"))
    }

    @Test(arguments: [
        "gold 5", "tokens", "tokens 0", "tokens -1", "tokens 1000000001", "tokens 5 6", "plan gold",
        "plan premium 0d", "plan premium 30", "", "premium",
    ])
    func `an unknown kind of product is refused, and told which are known`(
        product: String
    ) async throws {
        let text = try await refusal(
            """
            appStore:
              bundleId: com.example.app
              appAppleId: 1234567890
              roots: [AppleRootCA-G3.cer]
              products:
                com.example.thing: "\(product)"
            """
        )
        #expect(text.contains("'appStore.products.com.example.thing'"))
        #expect(text.contains("plan premium 30d"))
    }

    @Test func `a product that is declared twice is refused`() async throws {
        let text = try await refusal(
            """
            appStore:
              bundleId: com.example.app
              appAppleId: 1234567890
              roots: [AppleRootCA-G3.cer]
              products:
                a: tokens 1
                a: tokens 2
            """
        )
        #expect(!text.isEmpty)
    }

    @Test(arguments: ["com example", "com/example", String(repeating: "a", count: 156), "é.app"])
    func `a wrong bundle identifier is refused`(bundle: String) async throws {
        let text = try await refusal("appStore: {bundleId: \"\(bundle)\", roots: [a.cer]}")
        #expect(text.contains("'appStore.bundleId'") && text.contains("1 to 155 letters"))
    }
}
