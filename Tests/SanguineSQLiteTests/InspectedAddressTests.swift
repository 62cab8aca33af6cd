import SanguineModel
import SanguineSQLite
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Search for an address without a server", .bounded)
struct InspectedAddressTests {
    @Test func `an account that signs in with an address is found before one that shows it`()
        async throws
    {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        let authority = Authority(storage: storage, keys: SigningKeys())
        let names: [Login.Name] = [
            .identity(provider: "example", subject: "ada"), .email("ana@example.org"),
        ]
        var accounts: [Identifier] = []
        for (number, name) in names.enumerated() {
            let request = GuestRequest(
                deviceId: "device-of-an-account-\(number)",
                deviceSecret: Base64URL.encode([UInt8](repeating: UInt8(number), count: 32))
            )
            let signedIn = try await authority.guest(request).signedIn
            let guest = try await authority.tokens.verify(signedIn.session.accessToken)
            _ = try await authority.register(name, email: "ana@example.org", guest)
            accounts.append(guest.account)
        }
        let inspection = try SQLiteStorage.inspect(folder: folder.url)

        for text in ["ana@example.org", "Ana@Example.ORG"] {
            #expect(try await inspection.account(email: text)?.id == accounts[1], "\(text)")
        }
        await inspection.close()
        await storage.close()
    }
}
