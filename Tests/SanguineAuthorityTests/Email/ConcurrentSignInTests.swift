import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Simultaneous sign-ins, of which the right ones do not count against the limits.
@Suite("Concurrent sign-ins", .bounded)
struct ConcurrentSignInTests {
    private let world = EmailWorld()

    /// The number of each outcome of simultaneous sign-ins.
    private func outcomes(
        _ count: Int,
        _ email: @escaping @Sendable (Int) -> String,
        _ password: @escaping @Sendable (Int) -> String
    ) async -> [ProblemCode?: Int] {
        await withTaskGroup(of: ProblemCode?.self) { [world] tasks in
            for number in 0..<count {
                tasks.addTask {
                    await problem { () throws(Problem) in
                        try await world.signIn(
                            email(number),
                            password(number),
                            from: EmailWorld.address
                        )
                    }?.code
                }
            }
            return await tasks.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
    }

    @Test func `thirty people behind one address sign in at once`() async throws {
        for number in 0..<30 { _ = try await world.registered(number, "ana-\(number)@example.org") }
        let outcomes = await outcomes(30, { "ana-\($0)@example.org" }, { _ in "correct horse" })
        #expect(outcomes == [nil: 30])
    }

    @Test func `an account is signed in to from twenty devices at once`() async throws {
        _ = try await world.registered()
        let outcomes = await outcomes(20, { _ in "ana@example.org" }, { _ in "correct horse" })
        #expect(outcomes == [nil: 20])
    }

    @Test func `of thirty simultaneous wrong passwords, five are compared`() async throws {
        _ = try await world.registered()
        let outcomes = await outcomes(30, { _ in "ana@example.org" }, { "wrong horse \($0)" })
        #expect(outcomes == [.credentialsInvalid: 5, .rateLimited: 25])
        #expect(world.authority.pendingAttempts.waiting == 0)
    }

    @Test func `right passwords among wrong ones of other accounts are at most delayed`()
        async throws
    {
        for number in 0..<10 { _ = try await world.registered(number, "ana-\(number)@example.org") }
        let outcomes = await outcomes(
            15,
            { "ana-\($0 % 10)@example.org" },
            { $0 < 10 ? "correct horse" : "wrong horse" }
        )
        #expect(outcomes == [nil: 10, .credentialsInvalid: 5])
    }
}
