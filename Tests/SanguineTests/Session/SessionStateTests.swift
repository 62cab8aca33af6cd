import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Session state", .bounded)
struct SessionStateTests {
    static let noon = Timestamp(millisecondsSince1970: 1_700_000_000_000)
    static let account = Identifier(at: noon)

    static func session(_ number: Int, account: Identifier = account) -> StoredSession {
        StoredSession(
            Session(
                accessToken: "access-\(number)",
                expiresIn: 900,
                refreshToken: "refresh-\(number)"
            ),
            account: account,
            at: noon
        )
    }

    @Test func `the first need starts a guest session, and later ones wait for it`() {
        var state = SessionState()
        #expect(state.need(at: Self.noon) == .start(.guest, requestNumber: 1))
        #expect(state.need(at: Self.noon) == .wait(requestNumber: 1))
        #expect(state.completed(Self.session(1), requestNumber: 1) == .signedIn(isFirst: true))
        #expect(state.need(at: Self.noon) == .use("access-1"))
    }

    @Test func `an account becomes known once`() {
        var state = SessionState()
        _ = state.need(at: Self.noon)
        #expect(state.account == nil)
        _ = state.completed(Self.session(1), requestNumber: 1)
        #expect(state.account == Self.account)
        _ = state.rejected("access-1", at: Self.noon)
        #expect(state.completed(Self.session(2), requestNumber: 2) == .signedIn(isFirst: false))
    }

    @Test func `a token in its last half minute is refreshed and still used`() {
        var state = SessionState(restoring: Self.session(1))
        #expect(state.need(at: Self.noon + .seconds(869)) == .use("access-1"))
        #expect(
            state.need(at: Self.noon + .seconds(870))
                == .start(.refresh("refresh-1"), requestNumber: 1)
        )
        #expect(state.need(at: Self.noon + .seconds(880)) == .use("access-1"))
        #expect(state.need(at: Self.noon + .seconds(900)) == .wait(requestNumber: 1))
    }

    @Test func `with a clock that was set back, the server decides`() {
        var state = SessionState(restoring: Self.session(1))
        let lastYear = Self.noon - .seconds(365 * 86_400)
        #expect(state.need(at: lastYear) == .use("access-1"))
        #expect(
            state.rejected("access-1", at: lastYear)
                == .start(.refresh("refresh-1"), requestNumber: 1)
        )
        #expect(state.need(at: lastYear) == .wait(requestNumber: 1))
    }

    @Test func `rejecting a token that was already replaced starts nothing`() {
        var state = SessionState(restoring: Self.session(2))
        #expect(state.rejected("access-1", at: Self.noon) == .use("access-2"))
    }

    @Test func `after a failed refresh the next caller retries with the same token`() {
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        #expect(state.failed(nil, requestNumber: 1) == .failed)
        #expect(state.need(at: Self.noon) == .start(.refresh("refresh-1"), requestNumber: 2))
    }

    @Test(arguments: [ProblemCode.refreshReused, .refreshInvalid, .sessionEnded])
    func `the device renews an ended session for the same account`(
        code: ProblemCode
    ) {
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        #expect(state.failed(code, requestNumber: 1) == .goOn(.guest))
        #expect(state.need(at: Self.noon) == .wait(requestNumber: 1))
        #expect(state.completed(Self.session(2), requestNumber: 1) == .signedIn(isFirst: false))
        #expect(state.account == Self.account)
    }

    @Test func `a session of another account is rejected`() {
        let other = Identifier(at: Self.noon)
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        _ = state.failed(.sessionEnded, requestNumber: 1)
        let completion = state.completed(Self.session(2, account: other), requestNumber: 1)
        #expect(completion == .otherAccount)
        #expect(state.session == nil && state.account == Self.account)
    }

    @Test func `a rejected device is an error and is not retried automatically`() {
        var state = SessionState()
        _ = state.need(at: Self.noon)
        #expect(state.failed(.deviceSecretMismatch, requestNumber: 1) == .failed)
        #expect(state.need(at: Self.noon) == .start(.guest, requestNumber: 2))
    }

    @Test func `a session that arrives after the user has left is dropped`() {
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        #expect(state.end()?.accessToken == "access-1")
        #expect(!state.isCurrent(1))
        #expect(state.completed(Self.session(2), requestNumber: 1) == .overtaken)
        #expect(state.failed(.refreshReused, requestNumber: 1) == .overtaken)
        #expect(state.session == nil)
    }

    @Test func `a token whose lifetime is shorter than the margin is used before it is refreshed`()
    {
        let short = StoredSession(
            Session(accessToken: "a", expiresIn: 6, refreshToken: "r"),
            account: Self.account,
            at: Self.noon
        )
        var state = SessionState(restoring: short)
        #expect(state.need(at: Self.noon + .seconds(3)) == .use("a"))
        #expect(state.need(at: Self.noon + .seconds(4)) == .start(.refresh("r"), requestNumber: 1))
    }
}
