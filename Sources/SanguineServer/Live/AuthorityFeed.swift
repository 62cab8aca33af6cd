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
        // Read first: switches that change in the meantime are sent once more.
        let config = authority.switches.revision
        let answer = try await authority.pull(
            account,
            Authority.PullRequest(
                since: position.number,
                limit: limit,
                // A reader whose horizon is still kept need not get past it in one page.
                horizon: position.horizon ?? 0,
                epoch: position.epoch,
                config: position.config
            )
        )
        let horizon = answer.hasMore ? answer.horizon ?? position.horizon : answer.horizon
        return FeedPart(answer: answer, horizon: horizon, config: config)
    }

    func announceLists(of collections: [String]) { authority.announceLists(of: collections) }
}
