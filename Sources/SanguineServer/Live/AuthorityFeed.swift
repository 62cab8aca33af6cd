import SanguineAuthority
import SanguineModel

/// The feeds of an authority.
struct AuthorityFeed: FeedReading {
    let authority: Authority

    func read(
        _ account: Identifier,
        after position: FeedPosition,
        limit: Int
    ) async throws(Problem) -> FeedPart {
        let answer = try await authority.pull(
            account,
            Authority.PullRequest(
                since: position.number,
                limit: limit,
                horizon: position.horizon
            )
        )
        return FeedPart(answer: answer, horizon: answer.horizon ?? position.horizon)
    }
}
