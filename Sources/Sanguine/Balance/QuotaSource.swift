/// The source of the quotas' entry.
final class QuotaSource: EntrySource {
    let query = ValueQuery<[Quota]>.quotas.erased
    private let keeper: BalanceKeeper

    init(_ keeper: BalanceKeeper) { self.keeper = keeper }

    func currentValue() -> SourcedValue { keeper.currentQuotas() }

    func applyDueChanges() { keeper.startNewQuotaDays() }

    func fetch(_ request: QueryRequest) async throws(SanguineError) {
        try await keeper.fetchQuotas(request)
    }
}
