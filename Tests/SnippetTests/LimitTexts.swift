import SanguineAuthority
import SanguineImages
import SanguineMedia
import SanguineModel
import SanguineSQLite
import SanguineServer
import SanguineTesting

@testable import Sanguine

/// The limits, by name, as `Documentation/Limits.md` must contain them.
enum LimitTexts {
    static let all: [(String, String)] =
        wire + client + images + events + pages + ranges + records + messages + balance + metrics
        + feed + live + decoding + files + authority + identity + driver + testing

    private static let wire: [(String, String)] = [
        ("WireLimits.bodyBytes", bytes(WireLimits.bodyBytes)),
        ("WireLimits.blobBytes", bytes(WireLimits.blobBytes)),
        ("WireLimits.uploadsPerAccount", count(WireLimits.uploadsPerAccount)),
        ("WireLimits.uploadMetadataBytes", bytes(WireLimits.uploadMetadataBytes)),
        ("WireLimits.blobPixels", count(WireLimits.blobPixels)),
        ("WireLimits.imageSides", steps(WireLimits.imageSides)),
        ("WireLimits.readersPerRecord", count(WireLimits.readersPerRecord)),
        ("WireLimits.blobsPerRecord", count(WireLimits.blobsPerRecord)),
        ("WireLimits.deviceIdCharacters", range(WireLimits.deviceIdCharacters)),
        ("WireLimits.deviceNameCharacters", range(WireLimits.deviceNameCharacters)),
        ("WireLimits.deviceSecretBytes", bytes(WireLimits.deviceSecretBytes)),
        ("WireLimits.idempotencyKeyCharacters", range(WireLimits.idempotencyKeyCharacters)),
        ("WireLimits.reasonCharacters", range(WireLimits.reasonCharacters)),
        ("WireLimits.amount", count(WireLimits.amount)),
        ("WireLimits.holdSeconds", range(WireLimits.holdSeconds)),
        ("WireLimits.settingsBytes", bytes(WireLimits.settingsBytes)),
        ("WireLimits.displayNameCharacters", range(WireLimits.displayNameCharacters)),
        ("WireLimits.switches", count(WireLimits.switches)),
        ("WireLimits.switchesBytes", bytes(WireLimits.switchesBytes)),
        ("WireLimits.switchNameCharacters", range(WireLimits.switchNameCharacters)),
        ("WireLimits.switchedFreshness", count(WireLimits.switchedFreshness)),
        ("WireLimits.switchedQueryTimeout", range(WireLimits.switchedQueryTimeout)),
        ("WireLimits.switchedFunctionTimeout", range(WireLimits.switchedFunctionTimeout)),
        ("WireLimits.defaultPage", count(WireLimits.defaultPage)),
        ("WireLimits.largestPage", count(WireLimits.largestPage)),
        ("WireLimits.countedItems", count(WireLimits.countedItems)),
        ("WireLimits.followedLists", count(WireLimits.followedLists)),
        ("WireLimits.followedAuthors", count(WireLimits.followedAuthors)),
        ("WireLimits.searchedBytes", bytes(WireLimits.searchedBytes)),
        ("WireLimits.operationsAsked", count(WireLimits.operationsAsked)),
        ("WireLimits.recordIdCharacters", range(WireLimits.recordIdCharacters)),
        ("WireLimits.collectionNameCharacters", count(WireLimits.collectionNameCharacters)),
        ("WireLimits.mutatorNameCharacters", range(WireLimits.mutatorNameCharacters)),
        ("WireLimits.laneCharacters", range(WireLimits.laneCharacters)),
        ("WireLimits.indexesPerCollection", count(WireLimits.indexesPerCollection)),
        ("WireLimits.recordBytes", bytes(WireLimits.recordBytes)),
        ("WireLimits.recordsReadPerOperation", count(WireLimits.recordsReadPerOperation)),
        ("WireLimits.recordsChangedPerOperation", count(WireLimits.recordsChangedPerOperation)),
        ("WireLimits.pushedOperations", count(WireLimits.pushedOperations)),
        ("WireLimits.defaultPull", count(WireLimits.defaultPull)),
        ("WireLimits.largestPull", count(WireLimits.largestPull)),
        ("WireLimits.jsonNesting", count(WireLimits.jsonNesting)),
        ("WireLimits.conditionBytes", bytes(WireLimits.conditionBytes)),
        ("WireLimits.jsonValues", count(WireLimits.jsonValues)),
        ("WireLimits.memberNameBytes", count(WireLimits.memberNameBytes) + " bytes"),
        ("WireLimits.nameMarks", count(WireLimits.nameMarks)),
        ("WireLimits.textMarks", count(WireLimits.textMarks)),
        ("ThreadLimits.titleCharacters", range(ThreadLimits.titleCharacters)),
        ("ThreadLimits.areaCharacters", count(ThreadLimits.areaCharacters)),
        ("ThreadLimits.settingsBytes", bytes(ThreadLimits.settingsBytes)),
        ("ThreadLimits.textBytes", bytes(ThreadLimits.textBytes)),
        ("ThreadLimits.contentBytes", bytes(ThreadLimits.contentBytes)),
    ]

    private static let messages: [(String, String)] = [
        ("MessageLimits.page", count(MessageLimits.page)),
        ("MessageLimits.window", count(MessageLimits.window)),
        ("MessageLimits.pending", count(MessageLimits.pending)),
        ("MessageLimits.pendingBytes", bytes(MessageLimits.pendingBytes)),
        ("MessageLimits.exchangeBytes", bytes(MessageLimits.exchangeBytes)),
        ("MessageLimits.reconcileStep", count(MessageLimits.reconcileStep)),
        ("MessageLimits.followedAnswers", count(MessageLimits.followedAnswers)),
        ("MessageLimits.searchResults", count(MessageLimits.searchResults)),
        ("MessageLimits.mostSearchResults", count(MessageLimits.mostSearchResults)),
        ("MessageLimits.searchWords", count(MessageLimits.searchWords)),
        ("MessageLimits.searchedPlaces", count(MessageLimits.searchedPlaces)),
        ("MessageLimits.wordCharacters", count(MessageLimits.wordCharacters)),
        ("MessageLimits.indexedWords", count(MessageLimits.indexedWords)),
        ("MessageLimits.indexStep", count(MessageLimits.indexStep)),
        ("MessageLimits.indexStepBytes", bytes(MessageLimits.indexStepBytes)),
        ("MessageLimits.waitingForIndex", count(MessageLimits.waitingForIndex)),
    ]

    private static let client: [(String, String)] = [
        ("ClientLimits.requestTimeout", time(ClientLimits.requestTimeout)),
        ("ClientLimits.readTimeout", time(ClientLimits.readTimeout)),
        ("ClientLimits.balanceTimeout", time(ClientLimits.balanceTimeout)),
        ("ClientLimits.connectionsPerHost", count(ClientLimits.connectionsPerHost)),
        ("ClientLimits.readsPerHost", count(ClientLimits.readsPerHost)),
        ("ClientLimits.mostReadsPerHost", count(ClientLimits.mostReadsPerHost)),
        ("ClientLimits.prefetchesPerHost", count(ClientLimits.prefetchesPerHost)),
        ("ClientLimits.waitingReadsPerHost", count(ClientLimits.waitingReadsPerHost)),
        ("ClientLimits.readPatience", count(ClientLimits.readPatience)),
        ("ClientLimits.retryWindow", time(ClientLimits.retryWindow)),
        ("ClientLimits.retryReserve", count(ClientLimits.retryReserve)),
        ("ClientLimits.requestsPerRetry", count(ClientLimits.requestsPerRetry)),
        ("ClientLimits.retryHosts", count(ClientLimits.retryHosts)),
        ("ClientLimits.unheldModels", count(ClientLimits.unheldModels)),
        ("ClientLimits.unheldModelGrace", time(ClientLimits.unheldModelGrace)),
        ("ClientLimits.longestPause", time(ClientLimits.longestPause)),
        ("ClientLimits.batchSize", count(ClientLimits.batchSize)),
        ("ClientLimits.largestBatch", count(ClientLimits.largestBatch)),
        ("ClientLimits.batchWindow", time(ClientLimits.batchWindow)),
        ("ClientLimits.longestBatchWindow", time(ClientLimits.longestBatchWindow)),
        ("ClientLimits.responseBytes", bytes(ClientLimits.responseBytes)),
        ("ClientLimits.fileBytes", bytes(ClientLimits.fileBytes)),
        ("ClientLimits.requestBodyBytes", bytes(ClientLimits.requestBodyBytes)),
        (
            "ClientLimits.resumableUploadBytes",
            bytes(Int(ClientLimits.resumableUploadBytes))
        ),
        ("ClientLimits.uploadPartBytes", bytes(ClientLimits.uploadPartBytes)),
        ("ClientLimits.stagedFiles", count(ClientLimits.stagedFiles)),
        ("ClientLimits.stagedBytes", bytes(Int(ClientLimits.stagedBytes))),
        (
            "ClientLimits.stagedBytesInMemory",
            bytes(Int(ClientLimits.stagedBytesInMemory))
        ),
        ("ClientLimits.uploadBytes", bytes(Int(ClientLimits.uploadBytes))),
        ("ClientLimits.uploadTimeout", time(ClientLimits.uploadTimeout)),
        ("ClientLimits.redirects", count(ClientLimits.redirects)),
        ("ClientLimits.fileLockWait", time(ClientLimits.fileLockWait)),
        ("ClientLimits.databaseLockWait", time(ClientLimits.databaseLockWait)),
        ("ClientLimits.refreshTimeout", time(ClientLimits.refreshTimeout)),
        ("ClientLimits.errorBodyBytes", bytes(ClientLimits.errorBodyBytes)),
        ("ClientLimits.memoryBytes", bytes(ClientLimits.memoryBytes)),
        ("ClientLimits.entryOverheadBytes", bytes(ClientLimits.entryOverheadBytes)),
        ("ClientLimits.diskBytes", bytes(ClientLimits.diskBytes)),
        ("ClientLimits.diskEntryBytes", bytes(ClientLimits.diskEntryBytes)),
        ("ClientLimits.unwrittenEntries", count(ClientLimits.unwrittenEntries)),
        ("ClientLimits.storeRetries", count(ClientLimits.storeRetries)),
        ("ClientLimits.longestStoreRetry", time(ClientLimits.longestStoreRetry)),
        ("ClientLimits.keep", time(ClientLimits.keep)),
        ("ClientLimits.waitingOperationsKept", time(ClientLimits.waitingOperationsKept)),
        ("ClientLimits.countedGap", time(ClientLimits.countedGap)),
        ("ClientLimits.userIDBytes", bytes(ClientLimits.userIDBytes)),
        ("ClientLimits.invalidationMarks", count(ClientLimits.invalidationMarks)),
        ("RetrySchedule.attempts", count(RetrySchedule.standard.attempts)),
        ("RetrySchedule.base", time(RetrySchedule.standard.base)),
        ("RetrySchedule.cap", time(RetrySchedule.standard.cap)),
        ("RetrySchedule.jitter", "\(Int(RetrySchedule.standard.jitter * 100)) %"),
    ]

    private static let events: [(String, String)] = [
        ("EventLimits.foregroundAfter", time(EventLimits.foregroundAfter)),
        ("EventLimits.longestSleep", time(EventLimits.longestSleep)),
        ("EventLimits.shortestSleep", time(EventLimits.shortestSleep)),
        ("EventLimits.midnightSpread", time(EventLimits.midnightSpread)),
        ("EventLimits.networkPause", time(EventLimits.networkPause)),
        ("EventLimits.pollJitter", "\(Int(EventLimits.pollJitter * 100)) %"),
        ("EventLimits.adaptiveFraction", "\(Int(EventLimits.adaptiveFraction * 100)) %"),
        ("EventLimits.adaptiveMemory", "\(Int(EventLimits.adaptiveMemory * 100)) %"),
        ("EventLimits.adaptiveAbsence", count(Int(EventLimits.adaptiveAbsence))),
        ("EventLimits.matrixNames", count(EventLimits.matrixNames)),
        ("EventLimits.matrixPolicies", count(EventLimits.matrixPolicies)),
    ]

    private static let images: [(String, String)] = [
        ("ImageLimits.memoryBytes", bytes(ImageLimits.memoryBytes)),
        ("ImageLimits.memoryImages", count(ImageLimits.memoryImages)),
        ("ImageLimits.diskBytes", bytes(ImageLimits.diskBytes)),
        ("ImageLimits.fileBytes", bytes(ImageLimits.fileBytes)),
        ("ImageLimits.sourcePixels", count(ImageLimits.sourcePixels)),
        ("ImageLimits.sides", steps(ImageLimits.sides)),
        ("ImageLimits.thumbnailSide", count(ImageLimits.thumbnailSide)),
        ("ImageLimits.thumbnailFrom", count(ImageLimits.thumbnailFrom)),
        ("ImageLimits.decoders", count(ImageLimits.decoders)),
        ("ImageLimits.requestsPerHost", count(ImageLimits.requestsPerHost)),
        ("ImageLimits.redirects", count(ImageLimits.redirects)),
        ("ImageLimits.waitingWrites", count(ImageLimits.waitingWrites)),
        ("ImageLimits.freshness", time(ImageLimits.freshness)),
        ("ImageLimits.longestFreshness", time(ImageLimits.longestFreshness)),
        ("ImageLimits.prefetched", count(ImageLimits.prefetched)),
        ("ImageLimits.urlCharacters", count(ImageLimits.urlCharacters)),
    ]

    private static let pages: [(String, String)] = [
        ("PageLimits.size", count(PageLimits.size)),
        ("PageLimits.largestSize", count(PageLimits.largestSize)),
        ("PageLimits.kept", count(PageLimits.kept)),
        ("PageLimits.listsKept", count(PageLimits.listsKept)),
        ("PageLimits.cursorsKept", count(PageLimits.cursorsKept)),
        ("PageLimits.restarts", count(PageLimits.restarts)),
        ("PageLimits.refreshRequests", count(PageLimits.refreshRequests)),
        ("PageLimits.recoveryRequests", count(PageLimits.recoveryRequests)),
        ("PageLimits.emptyPages", count(PageLimits.emptyPages)),
        ("PageLimits.prefetchDistance", count(PageLimits.prefetchDistance)),
    ]

    private static let balance: [(String, String)] = [
        ("BalanceLimits.pendingCalls", count(BalanceLimits.pendingCalls)),
        ("BalanceLimits.formerEpochs", count(BalanceLimits.formerEpochs)),
        ("BalanceLimits.lateAnswer", time(BalanceLimits.lateAnswer)),
        ("BalanceLimits.answeredCalls", count(BalanceLimits.answeredCalls)),
        ("BalanceLimits.history", count(BalanceLimits.history)),
        ("BalanceLimits.learnedFunctions", count(BalanceLimits.learnedFunctions)),
        ("BalanceLimits.learnedCalls", count(BalanceLimits.learnedCalls)),
        ("BalanceLimits.quotas", count(BalanceLimits.quotas)),
        ("BalanceLimits.openCalls", count(BalanceLimits.openCalls)),
        ("BalanceLimits.keptRequestBytes", bytes(BalanceLimits.keptRequestBytes)),
        ("BalanceLimits.queuedCalls", count(BalanceLimits.queuedCalls)),
        ("BalanceLimits.answersKept", time(BalanceLimits.answersKept)),
        ("BalanceLimits.countedGap", time(BalanceLimits.countedGap)),
        ("BalanceLimits.freshness", time(BalanceLimits.freshness)),
        ("BalanceLimits.callTimeout", time(BalanceLimits.callTimeout)),
        ("BalanceLimits.callAttempts", count(BalanceLimits.callAttempts)),
        ("BalanceLimits.callInquiryTime", time(BalanceLimits.callInquiryTime)),
        ("BalanceLimits.inquiryWait", time(BalanceLimits.inquiryWait)),
        ("BalanceLimits.settlingBase", time(BalanceLimits.settlingBase)),
        ("BalanceLimits.settlingCap", time(BalanceLimits.settlingCap)),
        ("BalanceLimits.longestWait", time(BalanceLimits.longestWait)),
        ("BalanceLimits.unansweredLifetime", time(BalanceLimits.unansweredLifetime)),
    ]

    private static let metrics: [(String, String)] = [
        ("MetricsLimits.names", count(MetricsLimits.names)),
        ("MetricsLimits.nameCharacters", count(MetricsLimits.nameCharacters)),
        ("MetricsLimits.codeCharacters", count(MetricsLimits.codeCharacters)),
        ("MetricsLimits.slow", time(MetricsLimits.slow)),
        ("MetricsLimits.longestDuration", time(MetricsLimits.longestDuration)),
        ("MetricsLimits.bucketsPerDoubling", count(MetricsLimits.bucketsPerDoubling)),
        ("MetricsLimits.waitingEvents", count(MetricsLimits.waitingEvents)),
        ("MetricsLimits.reportBytes", bytes(MetricsLimits.reportBytes)),
        ("MetricsLimits.reportRows", count(MetricsLimits.reportRows)),
        ("MetricsLimits.reportColumns", count(MetricsLimits.reportColumns)),
    ]

    private static let ranges: [(String, String)] = [
        ("RangeLimits.indices", count(RangeLimits.indices)),
        ("RangeLimits.readSpan", count(RangeLimits.readSpan)),
        ("RangeLimits.requestSpan", count(RangeLimits.requestSpan)),
        ("RangeLimits.bridge", count(RangeLimits.bridge)),
        ("RangeLimits.recentReads", count(RangeLimits.recentReads)),
        ("RangeLimits.keepers", count(RangeLimits.keepers)),
    ]

    private static let feed: [(String, String)] = [
        ("FeedLimits.eventBytes", bytes(FeedLimits.eventBytes)),
        ("FeedLimits.silence", time(FeedLimits.silence)),
        ("FeedLimits.retry", time(FeedLimits.retry)),
        ("FeedLimits.longestRetry", time(FeedLimits.longestRetry)),
        ("FeedLimits.jitter", "\(Int(FeedLimits.jitter * 100)) %"),
        ("FeedLimits.lasting", time(FeedLimits.lasting)),
        ("FeedLimits.failuresBeforePolling", count(FeedLimits.failuresBeforePolling)),
        ("FeedLimits.listGap", time(FeedLimits.listGap)),
        ("FeedLimits.batchedChanges", count(FeedLimits.batchedChanges)),
        ("FeedLimits.waitingChanges", count(FeedLimits.waitingChanges)),
    ]

    private static let live: [(String, String)] = [
        ("EdgeLimits.acceptedAtOnce", count(EdgeLimits.acceptedAtOnce)),
        ("EdgeLimits.requestsInFlight", count(EdgeLimits.requestsInFlight)),
        ("EdgeLimits.pipelinedRequests", count(EdgeLimits.pipelinedRequests)),
        ("EdgeLimits.pieceBytes", bytes(EdgeLimits.pieceBytes)),
        ("EdgeLimits.unsentBytes", bytes(EdgeLimits.unsentBytes)),
        ("EdgeLimits.exemptAnswerBytes", bytes(EdgeLimits.exemptAnswerBytes)),
        ("EdgeLimits.uncompressedBytes", bytes(EdgeLimits.uncompressedBytes)),
        ("EdgeLimits.compressedBytes", bytes(EdgeLimits.compressedBytes)),
        ("EdgeLimits.streams", count(EdgeLimits.streams)),
        ("EdgeLimits.http2HeaderBytes", bytes(EdgeLimits.http2HeaderBytes)),
        ("EdgeLimits.resetStreams", count(EdgeLimits.resetStreams)),
        ("EdgeLimits.handshakeSeconds", count(EdgeLimits.handshakeSeconds)),
        ("EdgeLimits.wrongAdminTokens", count(EdgeLimits.wrongAdminTokens)),
        ("EdgeLimits.adminSessionSeconds", count(EdgeLimits.adminSessionSeconds)),
        ("EdgeLimits.filesAtOnce", count(EdgeLimits.filesAtOnce)),
        ("EdgeLimits.fileTimeFactor", count(EdgeLimits.fileTimeFactor)),
        ("EdgeLimits.accountShare", count(EdgeLimits.accountShare)),
        ("EdgeLimits.retryAfterSeconds", count(EdgeLimits.retryAfterSeconds)),
        ("LiveLimits.sharedEvents", count(LiveLimits.sharedEvents)),
        ("LiveLimits.sharedBytes", bytes(LiveLimits.sharedBytes)),
        ("LiveLimits.writeBytes", bytes(LiveLimits.writeBytes)),
        ("LiveLimits.retry", time(LiveLimits.retry)),
        ("LiveLimits.retryAfterShutdown", time(LiveLimits.retryAfterShutdown)),
        ("LiveLimits.writeAtShutdown", time(LiveLimits.writeAtShutdown)),
        ("LiveLimits.retryAfterRefusal", time(LiveLimits.retryAfterRefusal)),
        ("LiveLimits.ticketLife", time(LiveLimits.ticketLife)),
        ("LiveLimits.tickets", count(LiveLimits.tickets)),
        ("LiveLimits.ticketsPerAccount", count(LiveLimits.ticketsPerAccount)),
        ("LiveLimits.accountsWokenAtOnce", count(LiveLimits.accountsWokenAtOnce)),
        ("LiveLimits.listNotes", time(LiveLimits.listNotes)),
        ("LiveLimits.rememberedReaders", count(LiveLimits.rememberedReaders)),
        ("LiveLimits.switchesTime", time(LiveLimits.switchesTime)),
    ]

    private static let decoding: [(String, String)] = [
        ("DecodingLimits.pixels", count(DecodingLimits().pixels)),
        ("DecodingLimits.frames", count(DecodingLimits().frames)),
        ("DecodingLimits.time", time(DecodingLimits().time)),
        ("VipsImages.memoryBytes", bytes(VipsImages.memoryBytes)),
        ("ServerImages.fileBytes", bytes(ServerImages.fileBytes)),
        ("ThumbnailCache.thumbnails", count(ThumbnailCache.thumbnails)),
        ("ThumbnailCache.diskBytes", bytes(ThumbnailCache.diskBytes)),
        ("ThumbnailCache.memoryBytes", bytes(ThumbnailCache.memoryBytes)),
    ]

    private static let files: [(String, String)] = [
        ("FileBox.limit", count(FileBox.limit)),
        ("FileBox.depth", count(FileBox.depth)),
        ("UploadPiece.bytes", bytes(UploadPiece.bytes)),
        ("BlobWindows.limit", bytes(BlobWindows.limit)),
        ("Authority.looksPerPage", count(Authority.looksPerPage)),
    ]

    private static let records: [(String, String)] = [
        ("RecordLimits.operations", count(RecordLimits.operations)),
        ("RecordLimits.operationBytes", bytes(RecordLimits.operationBytes)),
        ("RecordLimits.pushBytes", bytes(RecordLimits.pushBytes)),
        ("RecordLimits.concurrentPushes", count(RecordLimits.concurrentPushes)),
        ("RecordLimits.pullChanges", count(RecordLimits.pullChanges)),
        ("RecordLimits.pollInterval", time(RecordLimits.pollInterval)),
        ("RecordLimits.echoWait", time(RecordLimits.echoWait)),
        ("RecordLimits.longestWait", time(RecordLimits.longestWait)),
        ("RecordLimits.deploymentWait", time(RecordLimits.deploymentWait)),
        ("RecordLimits.longestDeploymentPause", time(RecordLimits.longestDeploymentPause)),
        ("RecordLimits.companionInterval", time(RecordLimits.companionInterval)),
        ("RecordLimits.vainPulls", count(RecordLimits.vainPulls)),
        ("RecordLimits.concurrentUploads", count(RecordLimits.concurrentUploads)),
        ("RecordLimits.concurrentMutations", count(RecordLimits.concurrentMutations)),
        ("RecordLimits.foreignAnswers", count(RecordLimits.foreignAnswers)),
        ("RecordLimits.settlingFetches", count(RecordLimits.settlingFetches)),
        ("RecordLimits.mutationTimeout", time(RecordLimits.mutationTimeout)),
        ("RecordLimits.replacedIds", count(RecordLimits.replacedIds)),
        ("RecordLimits.restoreRanges", count(RecordLimits.restoreRanges)),
        ("RecordLimits.restoreRangeNumbers", count(RecordLimits.restoreRangeNumbers)),
        ("RecordLimits.restoreRoundRanges", count(RecordLimits.restoreRoundRanges)),
        ("RecordLimits.logBytes", bytes(RecordLimits.logBytes)),
        ("RecordLimits.pagerPages", count(RecordLimits.pagerPages)),
        ("RecordLimits.cachedRecords", count(RecordLimits.cachedRecords)),
        ("RecordLimits.cachedRecordBytes", bytes(RecordLimits.cachedRecordBytes)),
        ("RecordLimits.readingTries", count(RecordLimits.readingTries)),
    ]

    private static let authority: [(String, String)] = {
        let settings = AuthoritySettings()
        let quotas = settings.quotas.sorted { $0.key < $1.key }.map {
            "\($0.key): \($0.value.limit)"
        }
        return [
            ("AuthoritySettings.unit", settings.unit),
            ("AuthoritySettings.grant", count(settings.grant)),
            (
                "AuthoritySettings.spendingPerDay",
                settings.spendingPerDay.map { count($0) } ?? "none"
            ),
            ("AuthoritySettings.recordsEvents", settings.recordsEvents ? "yes" : "no"),
            ("AuthoritySettings.guestsNeedProof", settings.guestsNeedProof ? "yes" : "no"),
            ("AuthoritySettings.defaultTimeZone", settings.defaultTimeZone),
            ("AuthoritySettings.defaultLanguage", settings.defaultLanguage),
            ("AuthoritySettings.quotas", quotas.joined(separator: ", ")),
            (
                "AuthoritySettings.schema",
                settings.schema.declaredCollections.map(\.name).joined(separator: ", ")
            ),
            ("AuthoritySettings.listCacheBytes", bytes(settings.listCacheBytes)),
            ("AuthoritySettings.recordsPerAccount", count(settings.recordsPerAccount)),
            ("AuthoritySettings.bytesPerAccount", bytes(Int(settings.bytesPerAccount))),
            ("RecordRow.overheadBytes", bytes(Int(RecordRow.overheadBytes))),
            ("AuthoritySettings.uploadsKept", time(settings.uploadsKept)),
            ("AuthoritySettings.tombstonesKept", time(settings.tombstonesKept)),
            ("AuthoritySettings.threadsPerAccount", count(settings.threadsPerAccount)),
            ("AuthoritySettings.messagesPerThread", count(settings.messagesPerThread)),
            ("AuthoritySettings.tombstonesPerAccount", count(settings.tombstonesPerAccount)),
            ("AuthoritySettings.issuer", settings.issuer),
            ("AuthoritySettings.audience", settings.audience),
            ("AuthoritySettings.accessTokenLife", time(settings.accessTokenLife)),
            ("AuthoritySettings.refreshTokenLife", time(settings.refreshTokenLife)),
            ("AuthoritySettings.rotationGrace", time(settings.rotationGrace)),
            ("AccessTokens.capacity", count(AccessTokens.capacity)),
            ("AuthoritySettings.sessionsPerAccount", count(settings.sessionsPerAccount)),
            ("AuthoritySettings.holdLife", time(settings.holdLife)),
            ("AuthoritySettings.answersKept", time(settings.answersKept)),
            ("AuthoritySettings.holdsKept", time(settings.holdsKept)),
            ("AuthoritySettings.resultsPerAccount", count(settings.resultsPerAccount)),
            ("IndexBuild.looksPerStep", count(IndexBuild.looksPerStep)),
            ("IndexBuild.bytesPerStep", bytes(IndexBuild.bytesPerStep)),
            ("IndexBuild.stepsAtStart", count(IndexBuild.stepsAtStart)),
            ("CallLimits.unsettled", count(CallLimits.unsettled)),
            ("CallLimits.unsettledBytes", bytes(CallLimits.unsettledBytes)),
            ("CallLimits.leftCallsWait", time(CallLimits.leftCallsWait)),
            ("CallLimits.unsettledTime", time(CallLimits.unsettledTime)),
            ("CallLimits.refusedLeaders", count(CallLimits.refusedLeaders)),
            ("CallLimits.abandonedCalls", count(CallLimits.abandonedCalls)),
            ("CallLimits.abandonedTime", time(CallLimits.abandonedTime)),
            ("CallLimits.abandoningAccounts", count(CallLimits.abandoningAccounts)),
            ("CallLimits.recordMutations", count(CallLimits.recordMutations)),
            ("CallLimits.changedRecords", count(CallLimits.changedRecords)),
            ("CallLimits.changedBytes", bytes(CallLimits.changedBytes)),
            ("AuthoritySettings.publicResults", count(settings.publicResults)),
        ]
    }()

    private static let driver: [(String, String)] = {
        let options = SQLiteStorageOptions()
        return [
            ("SQLiteStorageOptions.queuedCommands", count(options.queuedCommands)),
            (
                "SQLiteStorageOptions.queuedCommandsPerAccount",
                count(options.queuedCommandsPerAccount)
            ),
            ("SQLiteStorageOptions.batchedCommands", count(options.batchedCommands)),
            ("SQLiteStorageOptions.queuedReads", count(options.queuedReads)),
            ("SQLiteStorageOptions.readers", count(options.readers)),
            ("SQLiteStorageOptions.cachedAccounts", count(options.cachedAccounts)),
            ("SQLiteStorageOptions.checkpointPages", count(options.checkpointPages)),
            ("SQLiteStorageOptions.openingCheck", time(options.openingCheck)),
            ("DataExamination.Files.limit", count(DataExamination.Files.limit)),
            ("DataExamination.Feeds.limit", count(DataExamination.Feeds.limit)),
            ("SQLiteStorageOptions.busyTimeout", time(options.busyTimeout)),
            ("SQLiteStorageOptions.retryAfterSeconds", count(options.retryAfterSeconds)),
        ]
    }()

    private static let testing: [(String, String)] = [
        ("TestingLimits.accounts", count(TestingLimits.accounts)),
        ("TestingLimits.operations", count(TestingLimits.operations)),
        ("TestingLimits.calls", count(TestingLimits.calls)),
        ("TestingLimits.streams", count(TestingLimits.streams)),
        ("TestingLimits.events", count(TestingLimits.events)),
        ("TestingLimits.copies", count(TestingLimits.copies)),
        ("TestingLimits.readings", count(TestingLimits.readings)),
        ("TestingLimits.wait", time(TestingLimits.wait)),
        ("TestingLimits.longestWait", time(TestingLimits.longestWait)),
    ]

    static func count(_ value: some BinaryInteger) -> String {
        let digits = Array(String(value))
        return digits.indices.reduce(into: "") { text, index in
            if index > 0 && (digits.count - index).isMultiple(of: 3) { text += "," }
            text.append(digits[index])
        }
    }

    static func range(_ value: ClosedRange<Int>) -> String {
        "\(count(value.lowerBound)) to \(count(value.upperBound))"
    }

    static func steps(_ values: [Int]) -> String {
        "\(count(values.count)), \(range(values[0]...values[values.count - 1]))"
    }

    static func bytes(_ value: some BinaryInteger) -> String {
        inLargest(
            of: [
                ("GiB", 1 << 30), ("MiB", 1 << 20), ("MB", 1_000_000), ("KiB", 1 << 10),
                ("bytes", 1),
            ],
            Int64(value)
        )
    }

    static func time(_ value: Duration) -> String {
        inLargest(
            of: [("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)],
            value.components.seconds * 1_000
                + value.components.attoseconds / 1_000_000_000_000_000
        )
    }

    /// Returns the value in the first unit of which it is a whole multiple.
    private static func inLargest(of units: [(String, Int64)], _ value: Int64) -> String {
        let unit = units.first { value >= $0.1 && value.isMultiple(of: $0.1) }
        guard let unit else { return count(value) }
        return value == 86_400_000 ? "1 day" : "\(count(value / unit.1)) \(unit.0)"
    }
}
