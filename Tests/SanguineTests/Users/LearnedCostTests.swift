import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Learned costs and users", .bounded(.seconds(120)))
struct LearnedCostTests {
    @Test func `the costs of one user's calls are not shown to the next`() async throws {
        let fixture = ClientFixture()
        fixture.authority.serveAsk(price: 7, hold: 10)
        let client = try await fixture.clientWithBalance()
        _ = try await client.call(Ask(question: "why?"))
        await client.signOut()
        _ = try await client.value(of: .balance)
        fixture.authority.stop(ClientFixture.askPath, at: .request)
        let begun = try client.users.current.functions.begin(Ask(question: "why?"))
        #expect(client.cached(.balance)?.held == 3)
        try await fixture.authority.release(ClientFixture.askPath, at: .request)
        _ = try await begun.value()
    }
}
