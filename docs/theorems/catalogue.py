"""The catalogue of theorems: statement, source, exactness, function and test of each result."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Theorem:
    """A result.

    ``function`` is "module:name". ``test`` is "path::name". ``exactness`` says in which sense the
    function computes the statement.
    """

    id: str
    title: str
    source: str
    statement: str
    function: str
    test: str
    exactness: str

    @property
    def page(self) -> str:
        """The path of the page with statement, hypotheses, symbols, proof, figure and limits."""
        return f"docs/theorems/{self.id}.md"


_T = "limelight.theory"
_TESTS = "tests/theory"
_PAPER = "limelight_reproduction.theory"  # functions that only the paper needs
_PAPER_TESTS = "reproduction/tests"

THEOREMS = (
    Theorem(
        id="attention",
        title="Attention of the [cls] token",
        source="paper, Eq. 8, 10 and 11",
        statement="α_t = g_t/Σ_s g_s, g_t = exp(q·k_t/√d_att); α-avg and α-max over heads",
        function=f"{_T}.attention:attention",
        test=f"{_TESTS}/test_gradient.py::test_attention_is_a_softmax_for_logits_of_any_size",
        exactness="exact",
    ),
    Theorem(
        id="gradient",
        title="Theorem 4.1: the gradient of the model",
        source="paper, Theorem 4.1; the row of [cls]: limelight",
        statement="∇_{e_t} f = (1/K) Σ_i α_t [W_vᵀW_ℓᵀ + (u_t − f_i) W_kᵀq/√d_att]",
        function=f"{_T}.gradient:gradient",
        test=f"{_TESTS}/test_gradient.py::test_matches_autograd_at_every_position_cls_included",
        exactness="exact",
    ),
    Theorem(
        id="integrated-gradients",
        title="Integrated gradients along UNK → token",
        source="Sundararajan et al. 2017; limelight for the integral per head",
        statement="IG_t = (1/K) Σ_i ∫₀¹ α_t(x) [Δu_t + Δℓ_t (u_t(x) − f_i(x))] dx",
        function=f"{_T}.integrated_gradients:integrated_gradients",
        test=f"{_TESTS}/test_integrated_gradients.py::test_matches_the_path_integral_of_autograd",
        exactness="exact with bound",
    ),
    Theorem(
        id="ratio-game",
        title="A one-layer attention classifier is a ratio game",
        source="limelight; Section 5 and Eq. 26–28 of the paper",
        statement="f(Z) = N(Z)/D(Z) with N and D additive over words, mean over heads",
        function=f"{_T}.ratio_game:value",
        test=f"{_TESTS}/test_ratio_game.py::test_value_is_the_mean_of_the_ratios",
        exactness="exact",
    ),
    Theorem(
        id="patches",
        title="The theorems over patches of an image",
        source="limelight, after Theorems 4.1 and 5.1 of the paper",
        statement="an image is a ratio game of its patches; without padding 5.1 has no rate",
        function="limelight.models.attention.patches:PatchClassifier",
        test="tests/models/test_patches.py"
        "::test_exact_methods_are_what_all_sets_of_twelve_patches_say",
        exactness="exact with bound",
    ),
    Theorem(
        id="power-game",
        title="A TF-IDF classifier is a power game",
        source="limelight; Hölder's inequality, and Dinkelbach 1967 for quotients",
        statement="f(Z) = c + N(Z)/D(Z)^p: p = ½ for l2, 1 for l1; Shapley values ≈ 2u_j − q_j f",
        function=f"{_T}.ratio_game:value",
        test="tests/models/test_linear_pipelines.py::test_every_vectorizer_is_exact",
        exactness="exact with bound, one unit a column; the last formula approximate",
    ),
    Theorem(
        id="table-rounding",
        title="Rounding from the weights to the tables, and what it does to every score",
        source="limelight; Higham 2002 for sums and products",
        statement="|f̂ − f| ≤ η + tanh(ε/2) (max u − min u) where logits are off by ε, values by η",
        function=f"{_T}.table_rounding:average_error",
        test="tests/models/test_table_rounding.py"
        "::test_scores_are_within_the_bound_of_what_the_weights_say",
        exactness="exact with bound",
    ),
    Theorem(
        id="reciprocal-sum",
        title="Certified sums of exponentials for powers of 1/x",
        source="Braess & Hackbusch 2005; Beylkin & Monzón 2005; certificate: limelight",
        statement="|x^p Σ w_i e^{−λ_i x} − 1| ≤ ε for all x in [1, R], 0 < p ≤ 1",
        function=f"{_T}.reciprocal_sum:reciprocal_sum",
        test=f"{_TESTS}/test_reciprocal_sum.py::test_the_certificate_holds_at_points_no_grid_saw",
        exactness="exact with bound",
    ),
    Theorem(
        id="removal-mixture",
        title="Weights on set sizes are mixtures of independent removals",
        source="limelight",
        statement="Σ_m ω_m Binom(s; d, p_m) = ψ(s)/d up to a residual that is returned",
        function=f"{_T}.removal_mixture:removal_mixture",
        test=f"{_TESTS}/test_removal_mixture.py::test_a_few_removal_probabilities_give_limes_weights",
        exactness="exact with bound",
    ),
    Theorem(
        id="certificate",
        title="The certificate: what an error of 1/D does to a score",
        source="limelight",
        statement="|error| ≤ max|f − c| (η + ε (Σ|c_S| + η)), plus rounding",
        function=f"{_T}.heavy_form:heavy_form",
        test=f"{_TESTS}/test_lime.py::test_the_bound_holds_on_thousands_of_games",
        exactness="exact with bound",
    ),
    Theorem(
        id="lime",
        title="The limit of LIME on a ratio game",
        source="limelight",
        statement="β_j = [c_j − χ/(V + ρ + dχ) Σ_k c_k]/(V + ρ)",
        function=f"{_T}.lime:lime",
        test=f"{_TESTS}/test_lime.py::test_matches_all_subsets",
        exactness="exact with bound, d ≥ 2",
    ),
    Theorem(
        id="lime-recurrence",
        title="The limit of LIME by dynamic programming",
        source="limelight",
        statement="forward and backward recurrences over the number of kept words (Pólya's urn)",
        function=f"{_T}.lime_recurrence:lime_by_recurrence",
        test=f"{_TESTS}/test_lime.py::test_the_two_routes_agree",
        exactness="exact with bound, d ≥ 2",
    ),
    Theorem(
        id="lime-fit",
        title="R² of LIME's limit",
        source="limelight",
        statement="R² = [(V + 2ρ) Σβ² + χ (Σβ)²] / (E[ψf²] − E[ψf]²/m_0)",
        function=f"{_T}.lime_fit:lime_fit",
        test=f"{_TESTS}/test_lime_fit.py::test_r2_is_that_of_the_regression_on_all_subsets",
        exactness="exact with bound, d ≥ 2",
    ),
    Theorem(
        id="lime-variance",
        title="The standard error of sampled LIME",
        source="limelight",
        statement="n Var β̂_j → E[ψ² κ_j(Z_j, s)² (f − ℓ)²]",
        function=f"{_PAPER}.lime_variance:lime_variance",
        test=f"{_PAPER_TESTS}/test_lime_variance.py::test_matches_the_sandwich_of_all_subsets",
        exactness="the limit n → ∞ exact to quadrature precision, d ≥ 2",
    ),
    Theorem(
        id="lime-deletion",
        title="The limit of LIME when words are deleted and positions shift",
        source="limelight",
        statement="recurrence over words and numbers of kept words, which give each position",
        function=f"{_PAPER}.deletion:lime_under_deletion",
        test=f"{_PAPER_TESTS}/test_deletion.py::test_matches_all_subsets",
        exactness="exact with bound, no repeated word, d ≥ 2",
    ),
    Theorem(
        id="shapley",
        title="Shapley values of a ratio game",
        source="Owen 1972 for the integral; QuadraSHAP (arXiv 2605.05870) for its quadrature",
        statement="Sh_j = ∫₀¹ (E_p[f | j kept] − E_p[f | j removed]) dp",
        function=f"{_T}.shapley:shapley",
        test=f"{_TESTS}/test_word_values.py::test_matches_all_subsets",
        exactness="exact with bound",
    ),
    Theorem(
        id="owen",
        title="Owen values: words inside sentences",
        source="Owen 1977 for the value; limelight for ratio games",
        statement="Ow_j = ∫₀¹∫₀¹ (E_{p,q}[f | j kept] − E_{p,q}[f | j removed]) dq dp",
        function=f"{_T}.owen:owen",
        test=f"{_TESTS}/test_owen.py::test_matches_the_mean_over_all_orders",
        exactness="exact with bound",
    ),
    Theorem(
        id="banzhaf",
        title="Banzhaf values of a ratio game",
        source="Banzhaf 1965; limelight for ratio games",
        statement="Bz_j = E_{1/2}[f | j kept] − E_{1/2}[f | j removed]",
        function=f"{_T}.banzhaf:banzhaf",
        test=f"{_TESTS}/test_word_values.py::test_matches_all_subsets",
        exactness="exact with bound",
    ),
    Theorem(
        id="leave-one-out",
        title="Leave-one-out on a ratio game",
        source="folklore",
        statement="f(all) − f(all but j)",
        function=f"{_T}.leave_one_out:leave_one_out",
        test=f"{_TESTS}/test_word_values.py::test_matches_all_subsets",
        exactness="exact",
    ),
    Theorem(
        id="interactions",
        title="Pair interactions of a ratio game",
        source="Grabisch & Roubens 1999 for the indices; limelight for ratio games",
        statement="E_p of f(j, k) − f(j) − f(k) + f(∅) is ∫ P [R ζ_j ζ_k + θ_j ζ_k + ζ_j θ_k] dλ",
        function=f"{_T}.interactions:shapley_interactions",
        test=f"{_TESTS}/test_word_values.py::test_matches_all_subsets",
        exactness="exact with bound, d ≥ 2",
    ),
    Theorem(
        id="refilling",
        title="Random refilling",
        source="limelight; multilinear extensions, Owen 1972",
        statement="φ_j = (1−p) e^{−λa_j} + p Π_{t∈P_j} E_Q[e^{−λb_t(W)}]: values of E_W f",
        function=f"{_T}.refilling:refilled_shapley",
        test=f"{_TESTS}/test_refilling.py"
        "::test_values_match_all_sets_and_all_refills_within_their_bounds",
        exactness="exact with bound",
    ),
    Theorem(
        id="certain-ranks",
        title="Certain sets of the strongest features",
        source="limelight; intersection–union tests, Berger 1982",
        statement="P(every certified set of the K largest |φ_j| is right) ≥ 1 − γ, at all looks",
        function="limelight.sampling.ranks:certify_tops",
        test="tests/sampling/test_certain_ranks.py"
        "::test_certificates_agree_with_a_second_implementation",
        exactness="exact for exact tests, such as Student's t of normal differences",
    ),
    Theorem(
        id="faithfulness-ceiling",
        title="Chance and ceiling of the deletion area",
        source="Dinkelbach 1967 for ratios; limelight",
        statement="A(π) ≤ f(N) − (1/d) Σ_k (1/K) Σ_i min_{|S|=k} N_i(S)/D_i(S) for every order π",
        function=f"{_T}.faithfulness:size_extremes",
        test=f"{_TESTS}/test_faithfulness.py::test_the_best_order_lies_between_greedy_and_the_ceiling",
        exactness="chance exact with bound; the ceiling proven, not always attained",
    ),
    Theorem(
        id="decisions",
        title="Certified decisions",
        source="limelight; Dinkelbach 1967 for θ",
        statement="f ≥ (1/K) Σ_i [θ_i + (N_i − θ_i D_i)/U_i], θ_i ≤ min N_i/D_i, U_i ≥ max D_i",
        function=f"{_T}.decisions:certify_removals",
        test=f"{_TESTS}/test_decisions.py::test_removals_agree_with_all_sets_of_words",
        exactness="proven lower bound; the smallest set if the search ends in time",
    ),
    Theorem(
        id="lime-theorem",
        title="Theorem 5.1: LIME meets attention, as printed",
        source="paper, Eq. 19",
        statement="β_j ≈ (3/2K) Σ_i Σ_t (α_t u_t − α_{h,t} u_{h,t}) 1{ξ_t = j}",
        function=f"{_PAPER}.paper:lime_theorem",
        test=f"{_PAPER_TESTS}/test_lime_theorem.py::test_without_an_offset_the_printed_form_errs_by_its_factor_alone",
        exactness="off by at least the factor 3/2, in its own regime too; a bound in any game",
    ),
    Theorem(
        id="lime-first-order",
        title="Theorem 5.1 corrected",
        source="limelight, after Eq. 19 of the paper",
        statement="β_j ≈ h_j = (1/K) Σ_i [A_j − B_j − f_i (a_j − b_j)]/D_i(1), f_i at full text",
        function=f"{_PAPER}.lime_first_order:lime_first_order",
        test=f"{_PAPER_TESTS}/test_lime_theorem.py::test_the_corrected_form_gains_a_power_of_the_window",
        exactness="Σ|β_j − h_j| = O(T_max^{ε−1}) Σ|h_j| for each head; a bound in any game",
    ),
    Theorem(
        id="mean-field",
        title="Mean-field LIME and Shapley values",
        source="limelight; what Eq. 31 of the paper aims at",
        statement="β_j ≈ ∫ κ [(A_j − B_j)/D̄ − (a_j − b_j) N̄/D̄²] dx + a common shift",
        function=f"{_PAPER}.mean_field:lime_mean_field",
        test=f"{_PAPER_TESTS}/test_mean_field.py::test_matches_the_integrals_in_twenty_digits",
        exactness="error O(T_max⁻²) in the regime of Theorem 5.1; a bound in any game",
    ),
    Theorem(
        id="second-order",
        title="LIME and Shapley values to second order, with a bound",
        source="limelight",
        statement="f = f̄ + L − Lη/D̄ + Lη²/(D̄D) about the mean text of each size; v_j by moments",
        function=f"{_PAPER}.second_order:second_order",
        test=f"{_PAPER_TESTS}/test_second_order.py::test_scores_and_bound_are_those_of_all_subsets",
        exactness="a bound in any game; error O(T_max^{ε−3}) in the regime of Theorem 5.1",
    ),
    Theorem(
        id="lime-limit",
        title="Eq. 17 and its exact form at finite d",
        source="paper, Eq. 17 (Mardaoui & Garreau 2021); finite d: limelight",
        statement="β_j = 3(d−1)/(d+1) [m_j − (d−3)/(d(d−1)) Σ_k m_k − 2/(d−1) E f]; Eq. 17: d = ∞",
        function="limelight_reproduction.lemmas:limit_at_finite_d",
        test=f"{_TESTS}/test_lemmas.py::test_the_finite_form_of_eq_17_is_lime_without_weights",
        exactness="finite form exact for ν = ∞; Eq. 17 is (d+1)/(d−1) (β_j − mean β)",
    ),
    Theorem(
        id="proposition-b1",
        title="Proposition B.1: approximate conditional expectations",
        source="paper, Eq. 29 and 30",
        statement="E[A_t V_t | ℓ ∉ S] ≈ Σ_s weight_s N_t(s)/D(s)",
        function="limelight_reproduction.lemmas:approximate_conditionals",
        test=f"{_TESTS}/test_lemmas.py::test_proposition_b1_holds_at_its_rate_once_its_weights_are_right",
        exactness="error O(T_max^{−3/2}) with P(s | ℓ ∉ S) ∝ d − s, but not with the weights 1/d",
    ),
    Theorem(
        id="lemma-d1",
        title="Lemma D.1: expected ratio",
        source="paper, Appendix D, with C for C² in the second term",
        statement="|E[X/Y] − E[X]/E[Y]| ≤ C Var(Y)/(c³n³) + C √Var(Y)/(c²n²)",
        function="limelight_reproduction.lemmas:expected_ratio_bound",
        test=f"{_TESTS}/test_lemmas.py::test_lemma_d1_bounds_the_ratio_of_expectations",
        exactness="exact inequality; as printed for C ≥ 1 only",
    ),
    Theorem(
        id="lemma-d2",
        title="Lemma D.2: integral approximation",
        source="paper, Appendix D",
        statement="∫₀¹ x dx/(1 + ax) = (a − log(1 + a))/a² = 1/2 − a/3 + O(a²)",
        function="limelight_reproduction.lemmas:ratio_integral",
        test=f"{_TESTS}/test_lemmas.py::test_lemma_d2_is_the_integral",
        exactness="exact; expansion O(a²)",
    ),
    Theorem(
        id="lemma-d3",
        title="Lemma D.3: conditional mean and variance of a random sum",
        source="paper, Appendix D.1",
        statement="Var_s(H_S | ℓ ∉ S) = ns(n−s−1)/((n−1)(n−2)) [Var̂ − (…)²/(n−1)]",
        function="limelight_reproduction.lemmas:conditional_variance",
        test=f"{_TESTS}/test_lemmas.py::test_lemma_d3_is_the_mean_and_variance_over_subsets",
        exactness="exact, n ≥ 3, Var̂ with 1/n",
    ),
    Theorem(
        id="lemma-d4",
        title="Lemma D.4: survival probabilities",
        source="paper, Appendix D.2",
        statement="P_s(a ∉ S) = (n−s)/n and its relatives",
        function="limelight_reproduction.lemmas:kept_probability",
        test=f"{_TESTS}/test_lemmas.py::test_lemma_d4_counts_subsets",
        exactness="exact",
    ),
    Theorem(
        id="lemma-d5",
        title="Lemma D.5: conditional survival probabilities",
        source="paper, Appendix D.2",
        statement="P_s(a ∉ S | ℓ ∉ S) = (n−1−s)/(n−1) and its relatives",
        function="limelight_reproduction.lemmas:kept_given_kept",
        test=f"{_TESTS}/test_lemmas.py::test_lemma_d5_counts_subsets_without_one_word",
        exactness="exact",
    ),
)
