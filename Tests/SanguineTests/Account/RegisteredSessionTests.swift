import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

/// The decisions about sessions that credentials have begun.
@Suite("Registered sessions", .bounded)
struct RegisteredSessionTests {
    private static let noon = Timestamp(millisecondsSince1970: 1_790_000_000_000)
    private static let account = Identifier(at: noon)

    private static func session(_ number: Int, account: Identifier = account) -> StoredSession {
        StoredSession(
            SignedIn(
                account: Account(
                    id: account,
                    kind: .registered,
                    timeZone: "UTC",
                    language: "en",
                    createdAt: noon
                ),
                session: Session(
                    accessToken: "access-\(number)",
                    expiresIn: 900,
                    refreshToken: "refresh-\(number)"
                )
            ),
            device: "device",
            at: noon
        )
    }

    @Test(arguments: [ProblemCode.refreshReused, .refreshInvalid, .sessionEnded])
    func `a registered user whose session ended becomes no guest`(code: ProblemCode) {
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        #expect(state.failed(code, requestNumber: 1) == .failed)
        #expect(state.need(at: Self.noon) == .ended)
        #expect(state.account == Self.account)
        state.adopt(Self.session(2))
        #expect(state.need(at: Self.noon) == .use("access-2"))
    }

    @Test func `a registered user whose account was deleted is over`() {
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        #expect(state.failed(.accountDeleted, requestNumber: 1) == .accountDeleted)
        #expect(state.need(at: Self.noon) == .ended)
    }

    @Test func `a guest whose account was deleted is over`() {
        var state = SessionState(restoring: SessionStateTests.session(1))
        _ = state.rejected("access-1", at: SessionStateTests.noon)
        #expect(state.failed(.accountDeleted, requestNumber: 1) == .accountDeleted)
        #expect(state.need(at: SessionStateTests.noon) == .ended)
    }

    @Test func `a guest who was registered on another device becomes no other guest`() {
        var state = SessionState(restoring: SessionStateTests.session(1))
        _ = state.rejected("access-1", at: SessionStateTests.noon)
        #expect(state.failed(.sessionEnded, requestNumber: 1) == .goOn(.guest))
        #expect(state.failed(.guestRegistered, requestNumber: 1) == .failed)
        #expect(state.need(at: SessionStateTests.noon) == .ended)
        #expect(state.needsSignIn && !state.mayCreateGuest)
        #expect(state.account == SessionStateTests.account)
        state.adopt(Self.session(2))
        #expect(state.need(at: Self.noon) == .use("access-2") && !state.needsSignIn)
    }

    @Test func `a failed network ends no registered session`() {
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        #expect(state.failed(nil, requestNumber: 1) == .failed)
        #expect(state.need(at: Self.noon) == .start(.refresh("refresh-1"), requestNumber: 2))
    }

    @Test func `an adopted session overtakes a refresh in progress`() {
        var state = SessionState(restoring: Self.session(1))
        _ = state.rejected("access-1", at: Self.noon)
        state.adopt(Self.session(2))
        #expect(state.completed(Self.session(3), requestNumber: 1) == .overtaken)
        #expect(state.need(at: Self.noon) == .use("access-2"))
    }

    @Test func `an adopted session may belong to the account of a merge`() {
        let other = Identifier(at: Self.noon)
        var state = SessionState(restoring: Self.session(1))
        state.adopt(Self.session(2, account: other))
        #expect(state.account == other && state.maySignIn)
    }
}
