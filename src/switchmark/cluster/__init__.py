"""A lab of equal testbeds that share one campaign: Dask's scheduler sends each test to a free
testbed, which measures it with the same code as a run on one host."""
