import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The number of codes by e-mail that a network address can request.
@Suite("Codes of a network address", .bounded)
struct CodeLimitTests {
    private func refusals(limit: Int, requests: Int) async throws -> [ProblemCode] {
        var settings = AuthoritySettings()
        settings.codesPerHour = limit
        let clock = ManualClock()
        let authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
        var refusals: [ProblemCode] = []
        func request(_ number: Int) async {
            let request = PasswordResetRequest(email: "ana-\(number)@example.org")
            let refused = await problem { () throws(Problem) in
                try await authority.requestPasswordReset(request, from: EmailWorld.address)
            }
            if let refused { refusals.append(refused.code) }
        }
        for number in 0..<requests { await request(number) }
        clock.advance(by: .seconds(3_601))
        await request(requests)
        return refusals
    }

    @Test(arguments: [1, 3, 40])
    func `an address can request as many codes per hour as the setting says`(
        limit: Int
    ) async throws {
        let refusals = try await refusals(limit: limit, requests: limit + 2)
        #expect(refusals == [.rateLimited, .rateLimited])
    }
}
